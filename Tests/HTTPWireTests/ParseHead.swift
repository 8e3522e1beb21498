import HTTPWire

/// Parses a head that must be complete and valid.
func parseHead(_ text: String, limits: HeadLimits = HeadLimits()) throws -> ParsedHead? {
    var parser = RequestHeadParser(limits: limits)
    return try parser.parse(Array(text.utf8).span)
}
