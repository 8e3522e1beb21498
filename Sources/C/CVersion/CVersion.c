#include "CVersion.h"

// Set by Package.swift. Only this file and BuildVersion are compiled again when the version changes.
#ifndef SLUICE_BUILD_VERSION
// scripts/release writes this line.
#define SLUICE_BUILD_VERSION "0.1.0"
#endif

const char *cversion_text(void) { return SLUICE_BUILD_VERSION; }
