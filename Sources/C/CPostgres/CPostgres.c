#include "CPostgres.h"

#include <CLibraries.h>

#define FUNCTIONS(EACH) \
    EACH(void, PQclear, (PGresult *result), (result), (void)0) \
    EACH(char *, PQcmdStatus, (PGresult *result), (result), NULL) \
    EACH(char *, PQcmdTuples, (PGresult *result), (result), NULL) \
    EACH(PGconn *, PQconnectdbParams, (const char *const *keywords, const char *const *values, int expands), \
         (keywords, values, expands), NULL) \
    EACH(void, PQconninfoFree, (PQconninfoOption *options), (options), (void)0) \
    EACH(PQconninfoOption *, PQconninfoParse, (const char *settings, char **message), (settings, message), NULL) \
    EACH(int, PQconsumeInput, (PGconn *connection), (connection), 0) \
    EACH(int, PQenterPipelineMode, (PGconn *connection), (connection), 0) \
    EACH(char *, PQerrorMessage, (const PGconn *connection), (connection), "") \
    EACH(int, PQexitPipelineMode, (PGconn *connection), (connection), 0) \
    EACH(void, PQfinish, (PGconn *connection), (connection), (void)0) \
    EACH(int, PQflush, (PGconn *connection), (connection), -1) \
    EACH(char *, PQfname, (const PGresult *result, int column), (result, column), NULL) \
    EACH(void, PQfreemem, (void *memory), (memory), (void)0) \
    EACH(PGresult *, PQgetResult, (PGconn *connection), (connection), NULL) \
    EACH(int, PQgetisnull, (const PGresult *result, int row, int column), (result, row, column), 1) \
    EACH(int, PQgetlength, (const PGresult *result, int row, int column), (result, row, column), 0) \
    EACH(char *, PQgetvalue, (const PGresult *result, int row, int column), (result, row, column), NULL) \
    EACH(int, PQisBusy, (PGconn *connection), (connection), 0) \
    EACH(int, PQnfields, (const PGresult *result), (result), 0) \
    EACH(PGnotify *, PQnotifies, (PGconn *connection), (connection), NULL) \
    EACH(int, PQntuples, (const PGresult *result), (result), 0) \
    EACH(PGPing, PQping, (const char *settings), (settings), PQPING_NO_ATTEMPT) \
    EACH(PGpipelineStatus, PQpipelineStatus, (const PGconn *connection), (connection), PQ_PIPELINE_OFF) \
    EACH(int, PQpipelineSync, (PGconn *connection), (connection), 0) \
    EACH(char *, PQresultErrorField, (const PGresult *result, int field), (result, field), NULL) \
    EACH(ExecStatusType, PQresultStatus, (const PGresult *result), (result), PGRES_FATAL_ERROR) \
    EACH(int, PQsendPrepare, \
         (PGconn *connection, const char *name, const char *query, int count, const Oid *types), \
         (connection, name, query, count, types), 0) \
    EACH(int, PQsendQuery, (PGconn *connection, const char *query), (connection, query), 0) \
    EACH(int, PQsendQueryParams, \
         (PGconn *connection, const char *query, int count, const Oid *types, const char *const *values, const int *lengths, \
          const int *formats, int format), \
         (connection, query, count, types, values, lengths, formats, format), 0) \
    EACH(int, PQsendQueryPrepared, \
         (PGconn *connection, const char *name, int count, const char *const *values, const int *lengths, const int *formats, \
          int format), \
         (connection, name, count, values, lengths, formats, format), 0) \
    EACH(PQnoticeProcessor, PQsetNoticeProcessor, \
         (PGconn *connection, PQnoticeProcessor processor, void *context), \
         (connection, processor, context), NULL) \
    EACH(int, PQsetnonblocking, (PGconn *connection, int isNonblocking), (connection, isNonblocking), -1) \
    EACH(int, PQsocket, (const PGconn *connection), (connection), -1) \
    EACH(ConnStatusType, PQstatus, (const PGconn *connection), (connection), CONNECTION_BAD) \
    EACH(PGTransactionStatusType, PQtransactionStatus, (const PGconn *connection), (connection), PQTRANS_UNKNOWN)

#define MEMBERS(EACH)

CLIBRARIES_DEFINE("libpq.so.5", FUNCTIONS, MEMBERS)

const char *cpostgres_load(void) { return is_loaded() ? NULL : failure; }
