/* engine/serve/access/tokens.c — the file of tokens: a JSON object with "version" and "tokens".
 *
 * It is read whole, and written anew, atomically, under the lock of a file beside it. So a server
 * that reads it without the lock sees one state.
 *
 * Invariants: a file that others may read, or that isn't ours, gives no token, since its tokens may
 * be known or planted. The text of a token is in memory only while it is made. Threads: any. */
#include "serve/access/tokens.h"
#include <sys/stat.h>
#include "base/crypto/base64.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/time/clock.h"

#define FILE_MAX_BYTES (1 * MIB)
#define TOKEN_PREFIX   "cairn_"
#define TOKEN_BYTES    32

static const char *const role_names[] = { NULL, "viewer", "operator", "admin" };

const char *role_name(enum role r)
{
	return role_names[r];
}

enum role role_parse(const char *s)
{
	for (size_t i = ROLE_VIEWER; i < ARRAY_LEN(role_names); i++)
		if (str_eq(s, role_names[i]))
			return (enum role)i;
	return ROLE_NONE;
}

bool token_name_is_valid(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= TOKEN_NAME_MAX &&
	       strspn(name,
		      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@+-") == n;
}

char *tokens_path(const char *dir)
{
	return fs_join(dir, "access/tokens.json");
}

/* Reading. */

static int check_file(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, ERR_INVALID, "%s must be a file of your own", path);
	if (st.st_mode & 077)
		return err_set(err, ERR_INVALID,
			       "others may read %s: revoke its tokens, and `chmod 600` it", path);
	return 0;
}

static int read_one(const json_t *j, struct arena *arena, struct token *ret, struct err *err)
{
	const char *name, *role, *digest;

	if (json_get_str(j, "name", &name, err) < 0 || json_get_str(j, "role", &role, err) < 0 ||
	    json_get_str(j, "sha256", &digest, err) < 0 ||
	    digest_parse(digest, &ret->digest, err) < 0 ||
	    json_get_int(j, "made_ns", &ret->made_ns, err) < 0 ||
	    json_get_int_opt(j, "expires_ns", 0, &ret->expires_ns, err) < 0)
		return -1;
	ret->name = arena_strdup(arena, name);
	ret->role = role_parse(role);
	return token_name_is_valid(name) && ret->role != ROLE_NONE
		       ? 0
		       : err_set(err, ERR_INVALID, "a token has a wrong name or role");
}

int tokens_read(const char *dir, struct arena *arena, struct token **ret, size_t *ret_n,
		struct err *err)
{
	_cleanup_(freep) char *path = tokens_path(dir);
	_cleanup_(json_decrefp) json_t *j = NULL;
	json_t *list;
	struct err why = { 0 };

	*ret = NULL;
	*ret_n = 0;
	if (check_file(path, &why) < 0 || json_read_file(path, FILE_MAX_BYTES, &j, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*err = why;
		return -1;
	}
	if (json_get_array(j, "tokens", &list, err) < 0)
		return err_wrap(err, "%s", path);
	*ret = arena_alloc(arena, (json_array_size(list) + 1) * sizeof(**ret));
	for (size_t i = 0; i < json_array_size(list); i++) {
		(*ret)[i] = (struct token){ 0 };
		if (read_one(json_array_get(list, i), arena, &(*ret)[i], err) < 0)
			return err_wrap(err, "%s", path);
	}
	*ret_n = json_array_size(list);
	return 0;
}

/* Writing. */

static int write_all(const char *dir, const struct token *v, size_t n, struct err *err)
{
	_cleanup_(freep) char *path = tokens_path(dir);
	_cleanup_(json_decrefp) json_t *j = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		char hex[DIGEST_HEX_MAX];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "name",
						      v[i].name, "role", role_name(v[i].role),
						      "sha256", digest_hex(&v[i].digest, hex),
						      "made_ns", (json_int_t)v[i].made_ns,
						      "expires_ns", (json_int_t)v[i].expires_ns));
	}
	j = json_pack("{s:i, s:o}", "version", 1, "tokens", list);
	json_add_canonical(&text, j);
	str_addc(&text, '\n');
	return fs_write_atomic_at(AT_FDCWD, path, text.s, text.len, 0600, 0, err);
}

static int lock(const char *dir, int *ret_fd, struct err *err)
{
	_cleanup_(freep) char *folder = fs_join(dir, "access"),
			      *path = fs_join(dir, "access/tokens.lock");

	if (fs_mkdir_p_at(AT_FDCWD, folder, 0700, err) < 0)
		return -1;
	return fs_lock_path(path, true, ret_fd, err);
}

int tokens_add(const char *dir, const struct token *t, struct str *ret_token, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(fd_closep) int fd = -1;
	unsigned char secret[TOKEN_BYTES];
	struct token *old, *all;
	size_t n;

	if (lock(dir, &fd, err) < 0 || tokens_read(dir, arena, &old, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (str_eq(old[i].name, t->name))
			return err_set(err, ERR_EXISTS,
				       "there is a token `%s` already: revoke it first, or choose "
				       "another name",
				       t->name);
	if (n == TOKENS_MAX)
		return err_set(err, ERR_TOO_LARGE, "there are %d tokens already", TOKENS_MAX);
	all = arena_alloc(arena, (n + 1) * sizeof(*all));
	if (n)
		memcpy(all, old, n * sizeof(*all));
	random_bytes(secret, sizeof(secret));
	str_add(ret_token, TOKEN_PREFIX);
	base64_add_url(ret_token, secret, sizeof(secret));
	explicit_bzero(secret, sizeof(secret));
	all[n] = *t;
	digest_bytes(ret_token->s, ret_token->len, &all[n].digest);
	return write_all(dir, all, n + 1, err);
}

int tokens_revoke(const char *dir, const char *name, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(fd_closep) int fd = -1;
	struct token *v;
	size_t n, kept = 0;

	if (lock(dir, &fd, err) < 0 || tokens_read(dir, arena, &v, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!str_eq(v[i].name, name))
			v[kept++] = v[i];
	if (kept == n)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no token `%s`; `cairn serve token list` shows them", name);
	return write_all(dir, v, kept, err);
}
