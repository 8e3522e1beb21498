internal import Bytes
internal import CCurl
internal import Transport

/// An easy handle of libcurl with all options of one request but its callbacks.
///
/// Invariant: `pointer` and `fieldList` are valid while this object lives; used on the loop's thread only.
final class EasyHandle {
    let pointer: UnsafeMutableRawPointer

    private let request: PreparedRequest
    private var fieldList: UnsafeMutablePointer<curl_slist>?

    /// `nil` if libcurl has no memory or rejects an option.
    init?(
        _ request: PreparedRequest,
        sending content: SentContent?,
        _ settings: TransferLoop.Settings,
        until deadline: ContinuousClock.Instant?,
        onNewConnection: Bool
    ) {
        guard let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
        self.request = request
        guard setUp(settings, isOnNewConnection: onNewConnection), setProxy(settings), setTimes(until: deadline),
            setContent(content), setFields(settings.userAgent, content)
        else {
            return nil
        }
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(fieldList)
    }

    private func setUp(_ settings: TransferLoop.Settings, isOnNewConnection: Bool) -> Bool {
        ccurl_set_quick_exit(pointer)
        var isSet =
            set(CURLOPT_NOSIGNAL, 1)
            && set(CURLOPT_URL, request.target.text)
            && set(CURLOPT_PROTOCOLS_STR, "http,https")
            && set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https")
            && set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
            // `PreparedRequest.redirected` follows redirects, because it decides what may be sent to another host.
            && set(CURLOPT_FOLLOWLOCATION, 0)
            && set(CURLOPT_NETRC, 0)
            // Content is passed on as it comes, with the coding that its fields name; transfer codings but chunks are refused.
            && set(CURLOPT_HTTP_CONTENT_DECODING, 0)
            && set(CURLOPT_SSL_VERIFYPEER, settings.verifiesCertificates ? 1 : 0)
            && set(CURLOPT_SSL_VERIFYHOST, settings.verifiesCertificates ? 2 : 0)
            // A response to streamed content is short, and many requests may send content at the same time.
            && set(CURLOPT_BUFFERSIZE, request.request.content == nil ? 256 << 10 : 16 << 10)
            && set(CURLOPT_NOPROGRESS, 1)
            && set(CURLOPT_FORBID_REUSE, request.request.keepsConnection ? 0 : 1)
            && set(CURLOPT_FRESH_CONNECT, isOnNewConnection ? 1 : 0)
            // Small heads are sent at once; idle connections notice a vanished peer within two minutes.
            && set(CURLOPT_TCP_NODELAY, 1)
            && set(CURLOPT_TCP_KEEPALIVE, 1)
            && set(CURLOPT_TCP_KEEPIDLE, 30)
            && set(CURLOPT_TCP_KEEPINTVL, 10)
        if let authorities = settings.authorities { isSet = isSet && set(CURLOPT_CAINFO, authorities) }
        if let path = settings.server?.unixPath { isSet = isSet && set(CURLOPT_UNIX_SOCKET_PATH, path) }
        if let certificate = settings.server?.certificate {
            isSet = isSet && set(CURLOPT_SSLCERT, certificate.certificate) && set(CURLOPT_SSLKEY, certificate.key)
        }
        if settings.server?.expectsProxyHeader == true { isSet = isSet && set(CURLOPT_HAPROXYPROTOCOL, 1) }
        return isSet
    }

    private func setProxy(_ settings: TransferLoop.Settings) -> Bool {
        // Empty: ignores the environment.
        guard set(CURLOPT_NOPROXY, ""), let proxy = settings.proxy else { return set(CURLOPT_PROXY, "") }
        var isSet =
            set(CURLOPT_PROXY, proxy.origin)
            && set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
            // Fields for the host, especially credentials, must not be sent to the proxy with CONNECT.
            && set(CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE))
            && set(CURLOPT_PROXY_SSL_VERIFYPEER, 1)
            && set(CURLOPT_PROXY_SSL_VERIFYHOST, 2)
        if let user = proxy.user { isSet = isSet && set(CURLOPT_PROXYUSERNAME, user) }
        if let password = proxy.password { isSet = isSet && set(CURLOPT_PROXYPASSWORD, password) }
        if let authorities = settings.authorities { isSet = isSet && set(CURLOPT_PROXY_CAINFO, authorities) }
        return isSet
    }

    private func setTimes(until deadline: ContinuousClock.Instant?) -> Bool {
        let connect = request.request.connectTimeout
        var isSet = set(CURLOPT_CONNECTTIMEOUT_MS, connect > .zero ? Self.milliseconds(connect) : 300_000)
        if let deadline {
            // 0 would mean no limit.
            isSet = isSet && set(CURLOPT_TIMEOUT_MS, max(1, Self.milliseconds(deadline - .now)))
        }
        if request.request.stallTimeout > .zero {
            let seconds = (Self.milliseconds(request.request.stallTimeout) + 999) / 1000
            isSet = isSet && setMinimumRate(isCounting: true) && set(CURLOPT_LOW_SPEED_TIME, seconds)
        }
        return isSet
    }

    /// libcurl ignores the time while receiving is paused, but some versions do not ignore paused sending.
    func setMinimumRate(isCounting: Bool) -> Bool {
        guard request.request.stallTimeout > .zero else { return true }
        return set(CURLOPT_LOW_SPEED_LIMIT, isCounting ? max(1, request.request.minimumRate) : 0)
    }

    private func setContent(_ sent: SentContent?) -> Bool {
        if let sent { return setUpload(sent) }
        switch request.method {
        case "GET" where request.body.isEmpty: return set(CURLOPT_HTTPGET, 1)
        case "HEAD": return set(CURLOPT_NOBODY, 1)
        case "POST": break
        default:
            if !set(CURLOPT_CUSTOMREQUEST, request.method) { return false }
            if request.body.isEmpty { return true }
        }
        let size = ccurl_set_size(pointer, CURLOPT_POSTFIELDSIZE_LARGE, Int64(request.body.count))
        guard set(CURLOPT_POST, 1), size == CURLE_OK else { return false }
        // Copied, so the bytes need not stay in place; an empty array may have no address.
        return request.body.isEmpty
            ? set(CURLOPT_COPYPOSTFIELDS, "")
            : request.body.withUnsafeBytes { bytes in
                ccurl_set_pointer(pointer, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: bytes.baseAddress))
                    == CURLE_OK
            }
    }

    private func setUpload(_ sent: SentContent) -> Bool {
        if let expected = request.request.expectsContinue,
            !set(CURLOPT_EXPECT_100_TIMEOUT_MS, max(1, Self.milliseconds(expected)))
        {
            return false
        }
        return set(CURLOPT_UPLOAD, 1)
            && set(CURLOPT_CUSTOMREQUEST, request.method)
            && set(CURLOPT_UPLOAD_BUFFERSIZE, sent.bufferSize)
            && ccurl_set_size(pointer, CURLOPT_INFILESIZE_LARGE, sent.length) == CURLE_OK
    }

    private func setFields(_ userAgent: String, _ sent: SentContent?) -> Bool {
        var lines = request.headers.map { name, value in value.isEmpty ? "\(name);" : "\(name): \(value)" }
        var names = Set(request.headers.map { $0.name.lowercasedASCII() })
        if !names.contains("user-agent") { lines.append("User-Agent: \(userAgent)") }
        if request.request.expectsContinue != nil, let sent, sent.length > 0 {
            // libcurl adds it, and omits it when it sends the request again after 417.
            names.insert("expect")
        }
        // A line without a value removes a field that libcurl would add.
        for name in ["Expect", "Content-Type"] where !names.contains(name.lowercasedASCII()) {
            lines.append("\(name):")
        }
        for line in lines {
            guard let list = curl_slist_append(fieldList, line) else { return false }
            fieldList = list
        }
        return ccurl_set_list(pointer, CURLOPT_HTTPHEADER, fieldList) == CURLE_OK
    }

    private func set(_ option: CURLoption, _ value: Int) -> Bool { ccurl_set_long(pointer, option, value) == CURLE_OK }

    private func set(_ option: CURLoption, _ value: String) -> Bool {
        ccurl_set_text(pointer, option, value) == CURLE_OK
    }

    private static func milliseconds(_ duration: Duration) -> Int {
        // The maximum of libcurl.
        Int(max(0, min(duration / .milliseconds(1), 2_000_000_000)))
    }
}
