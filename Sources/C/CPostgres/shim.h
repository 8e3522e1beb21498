/// libpq for Swift: the headers, and constants that the headers define as macros.
#ifndef CPOSTGRES_SHIM_H
#define CPOSTGRES_SHIM_H

#include <libpq-fe.h>

static const int cpostgres_sqlstate = PG_DIAG_SQLSTATE;
static const int cpostgres_message = PG_DIAG_MESSAGE_PRIMARY;

#endif
