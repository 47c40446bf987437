/* engine/base/net/mail.h — sends one message to a mail server, by SMTP through libcurl (loaded when
 * first needed, as in http.h).
 *
 * smtps:// is TLS from the start; smtp:// becomes TLS by STARTTLS when the server offers it, and
 * must when there is a password and the server isn't this machine: a password never goes over the
 * wire in the clear. Certificates are verified. Blocks, so call it from a worker. Any thread.
 *
 * Errors: ERR_UNSUPPORTED (no libcurl), ERR_INVALID (an address, the certificate, refused
 * credentials, a permanent refusal), ERR_IO for transient failures. Messages name the server, never
 * a password.
 */
#ifndef CAIRN_BASE_NET_MAIL_H
#define CAIRN_BASE_NET_MAIL_H

#include <stdbool.h>
#include "base/err.h"
#include "base/text/str.h"

struct mail {
	const char *url;      /* smtp(s)://[user@]host[:port] */
	const char *password; /* or NULL */
	const char *from;
	const char *const *to;
	size_t n_to;
	const char *subject; /* escaped to one line */
	const char *body;    /* text, UTF-8 */
	int64_t wall_ns;     /* for the Date header */
	const char *id;      /* unique; letters, digits, '-' */
	int64_t timeout_ns;  /* for the whole call */
};

int mail_send(const struct mail *m, struct err *err);
/* Adds the message as sent: headers and body, lines end in CR LF. Also for tests. */
void mail_add_message(struct str *out, const struct mail *m);
bool mail_address_is_valid(
	const char *address); /* local@domain, with nothing that could end a line or a command */

#endif
