/* engine/serve/access/tokens.h — tokens of people and programs, each with a name and a role, in a
 * file of the project's state: `access/tokens.json`, mode 0600.
 *
 * A token is `cairn_` and 256 random bits. The file has only their SHA-256: nobody guesses 256
 * bits, so a slow hash would protect nothing. A token is shown once, when it is made.
 */
#ifndef CAIRN_SERVE_ACCESS_TOKENS_H
#define CAIRN_SERVE_ACCESS_TOKENS_H

#include "base/crypto/digest.h"
#include "base/mem.h"
#include "base/text/str.h"

#define TOKENS_MAX     1000
#define TOKEN_NAME_MAX 64

/* Each may do what those before it may. viewer: read. operator: also start, cancel, approve,
 * trigger, pause. admin: also see who did what. */
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };
const char *role_name(enum role r);  /* NULL for ROLE_NONE */
enum role role_parse(const char *s); /* ROLE_NONE for other texts */

struct token {
	const char *name;
	enum role role;
	struct digest digest;
	int64_t made_ns, expires_ns; /* 0: never */
};

/* Letters, digits and `._@+-`, at most TOKEN_NAME_MAX. */
bool token_name_is_valid(const char *name);

/* `dir` is the state directory of a project. No file: no tokens. ERR_INVALID: the file is damaged,
 * or others may read it. */
char *tokens_path(const char *dir);
int tokens_read(const char *dir, struct arena *arena, struct token **ret, size_t *ret_n,
		struct err *err);
/* ERR_EXISTS: the name is taken. *ret_token is the token itself; wipe it. */
int tokens_add(const char *dir, const struct token *t, struct str *ret_token, struct err *err);
int tokens_revoke(const char *dir, const char *name, struct err *err); /* ERR_NOT_FOUND */

#endif
