/// libpq for Swift: the headers, and constants that the headers define as macros.
///
/// The library is loaded at the first call of one of its functions: only gateways with a PostgreSQL database need it.
#ifndef CPOSTGRES_H
#define CPOSTGRES_H

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

static const int cpostgres_sqlstate = PG_DIAG_SQLSTATE;
static const int cpostgres_message = PG_DIAG_MESSAGE_PRIMARY;

/// Loads the library, once; returns why that is not possible, or null. Without the library each function fails.
const char *cpostgres_load(void);

#endif
