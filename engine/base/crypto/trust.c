/* engine/base/crypto/trust.c — reads the user's file `trust`, and the environment variables.
 *
 * Each call reads the file again, so there is no state and no stale cache. The file is opened once,
 * so that owner and bytes are of the same file. Entries are compared without slashes at the end.
 *
 * Without a `writer` line all records are believed. So only a file that doesn't exist counts as
 * empty. A file that can't be read, or that others may have changed, and a line that isn't
 * understood, are errors for every call: the missed line might be the one that requires a
 * signature.
 */
#include "base/crypto/trust.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"

#define FILE_MAX_BYTES (1 * MIB)

bool trust_is_own(uid_t owner)
{
	const char *sudo = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
	char *end;

	if (owner == geteuid() || owner == 0)
		return true;
	return sudo && isdigit((unsigned char)*sudo) && strtoul(sudo, &end, 10) == owner && !*end;
}

char *trust_config_path(const char *name)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config && *config == '/')
		return xasprintf("%s/cairn/%s", config, name);
	return home && *home == '/' ? xasprintf("%s/.config/cairn/%s", home, name) : NULL;
}

/* The file. */

static int read_all(int fd, struct str *out)
{
	ssize_t n;

	do {
		str_reserve(out, 4 * KIB);
		n = read(fd, out->s + out->len, out->cap - out->len - 1);
		out->len += (size_t)MAX(n, 0);
		if (out->len > FILE_MAX_BYTES) {
			errno = EFBIG;
			return -1;
		}
	} while (n > 0 || (n < 0 && errno == EINTR));
	out->s[out->len] = '\0';
	return n < 0 ? -1 : 0;
}

/* Empty when the file doesn't exist. A dangling link counts as unreadable. */
static int read_file(const char *path, struct str *out, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ENOENT && lstat(path, &st) < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && read_all(fd, out) < 0))
		return err_set(
			err, ERR_INVALID,
			"cannot read %s (%s), which says whose records are believed: repair it, "
			"or remove it",
			path, strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file: move it away", path);
	if (!trust_is_own(st.st_uid))
		return err_set(
			err, ERR_INVALID,
			"%s belongs to user %lu, so what it allows is not yours: chown it, or "
			"remove it",
			path, (unsigned long)st.st_uid);
	if (st.st_mode & 022)
		return err_set(
			err, ERR_INVALID,
			"others may write to %s, which says whose records are believed: look at "
			"its lines, then chmod go-w it",
			path);
	if (memchr(out->s, '\0', out->len))
		return err_set(err, ERR_INVALID, "%s isn't a text file: write it anew as UTF-8",
			       path);
	return 0;
}

/* Its lines, one after the other. */
struct trust_file {
	char *path; /* NULL: no configuration directory */
	struct str text;
	const char *next;
	unsigned line;
};

static int file_open(struct trust_file *f, struct err *err)
{
	*f = (struct trust_file){ .path = trust_config_path("trust") };
	if (f->path && read_file(f->path, &f->text, err) < 0)
		return -1;
	f->next = f->text.len ? f->text.s : "";
	return 0;
}

static void file_close(struct trust_file *f)
{
	free(f->path);
	str_deinit(&f->text);
}

/* 1: the next line of this kind; *ret is the text after the kind, trimmed. 0: no more lines. -1: an
 * earlier line isn't understood. */
static int next_line(struct trust_file *f, const char *kind, const char **ret, size_t *ret_n,
		     struct err *err)
{
	static const char *const kinds[] = { "project", "endpoint", "writer" };

	while (*f->next) {
		const char *word = f->next + strspn(f->next, " \t\r");
		size_t n = strcspn(word, " \t\r\n"), k = 0;
		const char *rest = word + n;

		f->line++;
		f->next += strcspn(f->next, "\n");
		rest += strspn(rest, " \t\r");
		*ret_n = (size_t)(f->next - rest);
		f->next += *f->next == '\n';
		if (n == 0 || *word == '#')
			continue;
		while (k < ARRAY_LEN(kinds) && (n != strlen(kinds[k]) || memcmp(word, kinds[k], n)))
			k++;
		if (k == ARRAY_LEN(kinds) || *ret_n == 0)
			return err_set(err, ERR_INVALID,
				       "%s:%u: a line is `project PATH`, `endpoint URL`, `writer "
				       "STORE KEY` or a comment that begins with #",
				       f->path, f->line);
		while (strchr(" \t\r", rest[*ret_n - 1]))
			--*ret_n;
		*ret = rest;
		if (str_eq(kinds[k], kind))
			return 1;
	}
	return 0;
}

/* Lookups. */

static bool is_word(const char *at, size_t n, const char *word)
{
	while (n &&
	       at[n - 1] == '/') /* a slash at the end has no meaning, in a URL or a directory */
		n--;
	return (n == 1 && *at == '*') || (n == strlen(word) && memcmp(at, word, n) == 0);
}

static bool in_words(const char *list, const char *word)
{
	while (list && *list) {
		size_t n;

		list += strspn(list, " \t\n");
		n = strcspn(list, " \t\n");
		if (n && is_word(list, n, word))
			return true;
		list += n;
	}
	return false;
}

/* The form for comparison: without slashes at the end. */
static char *bare(const char *text)
{
	return xstrndup(text, MAX(str_len_without(text, '/'), MIN(strlen(text), (size_t)1)));
}

static int writer_of_line(const struct trust_file *f, const char *line, size_t n, const char *store,
			  int (*fn)(void *arg, const char *key, size_t n, struct err *err),
			  void *arg, struct err *err)
{
	const char *key = line + strcspn(line, " \t\r\n");
	size_t place_n = (size_t)(key - line), key_n;
	bool is_place;

	key += strspn(key, " \t\r");
	key_n = key < line + n ? strcspn(key, " \t\r\n") : 0;
	is_place =
		*line == '/' || (place_n == 1 && *line == '*') || memmem(line, place_n, "://", 3);
	if (!key_n || !is_place) /* a place that no store can have would have no effect */
		return err_set(err, ERR_INVALID,
			       "%s:%u: a writer is `writer STORE ed25519:KEY`, where STORE is the "
			       "address of a bucket, an absolute path, or * for all",
			       f->path, f->line);
	if (is_word(line, place_n, store) && fn(arg, key, key_n, err) < 0)
		return err_wrap(err, "%s:%u", f->path, f->line);
	return 0;
}

int trust_each_writer(const char *store,
		      int (*fn)(void *arg, const char *key, size_t n, struct err *err), void *arg,
		      struct err *err)
{
	_cleanup_(freep) char *wanted = bare(store);
	struct trust_file f;
	const char *line;
	size_t n;
	int r = file_open(&f, err), more = 0;

	while (r == 0 && (more = next_line(&f, "writer", &line, &n, err)) > 0)
		r = writer_of_line(&f, line, n, wanted, fn, arg, err);
	file_close(&f);
	return r < 0 || more < 0 ? -1 : 0;
}

static int allows(const char *kind, const char *variable, const char *word, struct err *err)
{
	_cleanup_(freep) char *wanted = bare(word);
	struct trust_file f;
	const char *line;
	size_t n;
	int r, found = 0;

	if (in_words(getenv(variable), wanted))
		return 1;
	r = file_open(&f, err);
	while (r == 0 && !found && (found = next_line(&f, kind, &line, &n, err)) > 0)
		found = is_word(line, n, wanted);
	file_close(&f);
	return r < 0 ? -1 : found;
}

int trust_allows_project(const char *path, struct err *err)
{
	return allows("project", "CAIRN_TRUST_PROJECTS", path, err);
}

int trust_check_endpoint(const char *url, struct err *err)
{
	static const char *const named[] = { "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL" };
	int allowed;

	for (size_t i = 0; i < ARRAY_LEN(named); i++)
		if (str_eq(getenv(named[i]), url))
			return 0;
	allowed = allows("endpoint", "CAIRN_TRUST_ENDPOINTS", url, err);
	if (allowed)
		return MIN(allowed, 0);
	return err_set(err, ERR_INVALID,
		       "only the project names %.200s, so your credentials aren't sent there. If "
		       "you trust it, add the line `endpoint %.200s` to ~/.config/cairn/trust, or "
		       "set CAIRN_TRUST_ENDPOINTS",
		       url, url);
}

bool trust_is_loopback(const char *url)
{
	const char *host = strstr(url, "://");
	size_t n;

	host = host ? host + 3 : url;
	n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
	if (memchr(host, '@', strcspn(host, "/?#")))
		return false;
	return (n == 9 && strncasecmp(host, "localhost", 9) == 0) ||
	       (n == 5 && memcmp(host, "[::1]", 5) == 0) ||
	       (n >= 8 && n <= 15 && memcmp(host, "127.", 4) == 0 &&
		strspn(host, "0123456789.") == n);
}
