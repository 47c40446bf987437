/* engine/serve/view/ticket.h — the right to read one content for a while, as a part of an address.
 *
 * A sandboxed page sends no cookie, but relative links keep the path of its own address. So the
 * path has the right: what it is for, until when, and whose; signed with a key of this process. A
 * ticket ends with the token or session that it was made for. Any thread. */
#ifndef CAIRN_SERVE_VIEW_TICKET_H
#define CAIRN_SERVE_VIEW_TICKET_H

#include "base/crypto/digest.h"
#include "serve/access/access.h"

#define TICKET_S     3600
#define TICKET_CHARS 160 /* at most */

struct ticket {
	uint32_t project; /* its place in the server's list */
	struct content_id content;
	struct access_proof proof;
	int64_t until_ns; /* wall */
};

void ticket_write(const struct ticket *t, struct str *out);
/* False: not one of ours, or its time is over. */
bool ticket_read(const char *text, struct ticket *ret);

#endif
