/* Names of what lies elsewhere. The commit is one of SHA-1, as libgit2 reads it. */
#include "model/external.h"
#include <string.h>
#include "base/os/fs.h"
#include "base/text/str.h"

#define GIT_PREFIX    "git+"
#define RUN_PREFIX    "run:"
#define GIT_ROOT      "git@"
#define RUN_ROOT      "run@"
#define COMMIT_DIGITS 40
#define HASH_DIGITS   64
#define URL_MAX       2000

static const char hex_digits[] = "0123456789abcdef";

bool external_looks_like(const char *uses)
{
	size_t n = strlen(uses);

	return strstr(uses, "://") || str_has_prefix(uses, GIT_PREFIX) ||
	       str_has_prefix(uses, RUN_PREFIX) || str_has_prefix(uses, "sha256:") ||
	       (n >= 12 && strspn(uses, hex_digits) == n);
}

static const char *check_url(const char *url)
{
	const char *host = strstr(url, "://");
	size_t n;

	if (str_has_prefix(url, "file:///"))
		return url[8] ? NULL : "the path of the repository is missing";
	if (!host || (!str_has_prefix(url, "https://") && !str_has_prefix(url, "http://")))
		return "a repository is named by git+https://… or git+file:///…";
	host += 3;
	n = strcspn(host, "/?#");
	if (memchr(host, '@', n))
		return "a user and a password don't belong into a pipeline";
	if (n == 0 || !host[n] || !host[n + 1])
		return "the host or the path of the repository is missing";
	if (strpbrk(host, "?"))
		return "the URL of a repository has no query";
	if (*url == 'h' && url[4] == ':' && !str_has_prefix(host, "127.") &&
	    !str_has_prefix(host, "localhost") && !str_has_prefix(host, "[::1]"))
		return "http:// is for this machine (127.0.0.1, localhost) only; use https://";
	return NULL;
}

static const char *parse_git(const char *text, struct arena *arena, struct external *ret)
{
	const char *hash = strchr(text, '#'), *at, *problem;
	size_t n = hash ? (size_t)(hash - text) : strlen(text), digits;

	at = memrchr(text, '@', n);
	if (!at || memchr(at, '/', n - (size_t)(at - text)))
		return "it isn't pinned: write git+https://host/repository@COMMIT#path";
	digits = n - (size_t)(at + 1 - text);
	if (digits != COMMIT_DIGITS || strspn(at + 1, hex_digits) < digits)
		return "it isn't pinned: behind @ stands a full commit id, 40 lower-case hex "
		       "digits. A "
		       "branch or tag moves; `git rev-parse` tells its commit";
	if (!hash || !hash[1])
		return "which file of the repository? Write its path behind the commit: "
		       "#path/x.yaml";
	if (n > URL_MAX || strlen(hash) > URL_MAX)
		return "it is too long";
	ret->kind = EXTERNAL_GIT;
	ret->text = arena_strndup(arena, text, n);
	ret->url = arena_strndup(arena, text + strlen(GIT_PREFIX),
				 (size_t)(at - text) - strlen(GIT_PREFIX));
	ret->id = arena_strndup(arena, at + 1, digits);
	ret->path = arena_strdup(arena, hash + 1);
	ret->root = arena_printf(arena, GIT_ROOT "%s", ret->id);
	problem = check_url(ret->url);
	return problem;
}

static const char *parse_run(const char *text, struct arena *arena, struct external *ret)
{
	const char *id = text + strlen(RUN_PREFIX);

	if (strlen(id) != HASH_DIGITS || strspn(id, hex_digits) != HASH_DIGITS)
		return "a past run is named by its whole hash: run: and 64 lower-case hex digits, "
		       "which "
		       "`cairn status` prints";
	ret->kind = EXTERNAL_RUN;
	ret->text = arena_strdup(arena, text);
	ret->id = arena_strdup(arena, id);
	ret->root = arena_printf(arena, RUN_ROOT "%s", id);
	return NULL;
}

const char *external_parse(const char *uses, struct arena *arena, struct external *ret)
{
	*ret = (struct external){ 0 };
	for (const char *c = uses; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return "it has spaces or control characters";
	if (str_has_prefix(uses, GIT_PREFIX))
		return parse_git(uses, arena, ret);
	if (str_has_prefix(uses, RUN_PREFIX))
		return parse_run(uses, arena, ret);
	return "a step uses a file of the project (./x.yaml), of a git commit "
	       "(git+https://host/repository@COMMIT#path), or a past run (run:HASH)";
}

size_t external_root_len(const char *path)
{
	size_t digits = str_has_prefix(path, GIT_ROOT)   ? COMMIT_DIGITS
			: str_has_prefix(path, RUN_ROOT) ? HASH_DIGITS
							 : 0,
	       n = strlen(GIT_ROOT) + digits;

	return digits && strspn(path + strlen(GIT_ROOT), hex_digits) == digits &&
			       (!path[n] || path[n] == '/')
		       ? n
		       : 0;
}

char *external_dir(const char *project, const char *uses_dir, const char *root)
{
	return root && *root ? fs_join(uses_dir, root) : xstrdup(project);
}
