/// The version of this build.
#ifndef CVERSION_H
#define CVERSION_H

/// A constant of the program: the version that the build was told (SLUICE_BUILD_VERSION, by scripts/version), or the one of the
/// newest release section in CHANGELOG.md.
const char *cversion_text(void);

#endif
