/* engine/serve/web/tls.h — the certificate of the server, which may be renewed while it runs.
 *
 * Files in PEM: the certificate with those that lead to a known authority behind it, and its key.
 * They are read again when they have changed. Files that can't be used are reported, and the old
 * ones stay. */
#ifndef CAIRN_SERVE_WEB_TLS_H
#define CAIRN_SERVE_WEB_TLS_H

#include <stdbool.h>
#include "base/err.h"

/* TLS 1.2 and 1.3 only. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Reads the files; there is one certificate for the process. ERR_UNSUPPORTED: gnutls isn't there.
 */
int tls_open(const char *cert, const char *key, struct err *err);
/* Reads them again if they have changed, or if `force`. 1: there are new ones; 0: nothing is new;
 * -1: the old ones stay. One thread at a time. */
int tls_reload(bool force, struct err *err);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK: a function that any thread may call. */
void *tls_callback(void);

#endif
