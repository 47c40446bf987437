#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fs.h"
#include "base/mem.h"
#include "base/trust.h"

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

/* Is it the caller's own, and only his? False also when there is none. */
static bool read_file(struct str *out)
{
	_cleanup_(freep) char *path = trust_config_path("trust");
	_cleanup_(fd_closep) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct stat st;
	char self[40];

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	(void)fs_read_file(self, FILE_MAX_BYTES, out, NULL);
	return trust_is_own(st.st_uid) && !(st.st_mode & 022);
}

static bool is_word(const char *at, size_t n, const char *word)
{
	while (n && at[n - 1] == '/') /* a slash at the end means nothing, neither of a URL nor of a directory */
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

static bool in_file(const char *kind, const char *word)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!read_file(&text))
		return false;
	for (const char *at = text.len ? text.s : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const char *line = at + strspn(at, " \t");
		size_t n = strcspn(line, "\n");

		if (n <= strlen(kind) || strncmp(line, kind, strlen(kind)) != 0 || !isblank((unsigned char)line[strlen(kind)]))
			continue;
		line += strlen(kind);
		n -= strlen(kind);
		while (n && isblank((unsigned char)*line))
			line++, n--;
		while (n && isspace((unsigned char)line[n - 1]))
			n--;
		if (is_word(line, n, word))
			return true;
	}
	return false;
}

static size_t next_word(const char **at)
{
	*at += strspn(*at, " \t\r");
	return strcspn(*at, " \t\r\n");
}

int trust_each_writer(const char *store,
		      int (*fn)(void *arg, const char *key, size_t n, struct err *err), void *arg,
		      struct err *err)
{
	_cleanup_(freep) char *bare = xstrdup(store);
	_cleanup_(str_deinit) struct str text = { 0 };
	bool own = read_file(&text);

	for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--)
		bare[n - 1] = '\0';
	for (const char *at = text.len ? text.s : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const char *place;
		size_t n = next_word(&at), place_bytes;

		if (n != 6 || memcmp(at, "writer", n) != 0)
			continue;
		if (!own)
			return err_set(err, ERR_INVALID,
				       "~/.config/cairn/trust says whose records count, and others may write to it: "
				       "chmod go-w it, or make it your own");
		place = at += n;
		place_bytes = next_word(&place);
		at = place + place_bytes;
		n = next_word(&at);
		if (!place_bytes || !n)
			return err_set(err, ERR_INVALID,
				       "~/.config/cairn/trust: a writer is `writer STORE ed25519:KEY`");
		if (is_word(place, place_bytes, bare) && fn(arg, at, n, err) < 0)
			return -1;
	}
	return 0;
}

static bool allows(const char *kind, const char *variable, const char *word)
{
	_cleanup_(freep) char *bare = xstrdup(word);

	for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--)
		bare[n - 1] = '\0';
	return in_words(getenv(variable), bare) || in_file(kind, bare);
}

bool trust_allows_project(const char *path)
{
	return allows("project", "CAIRN_TRUST_PROJECTS", path);
}

int trust_check_endpoint(const char *url, struct err *err)
{
	static const char *const named[] = { "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL" };

	for (size_t i = 0; i < ARRAY_LEN(named); i++)
		if (str_eq(getenv(named[i]), url))
			return 0;
	if (allows("endpoint", "CAIRN_TRUST_ENDPOINTS", url))
		return 0;
	return err_set(err, ERR_INVALID,
		       "only the project names %.200s, so your credentials aren't sent there. If you trust it, add the line `endpoint %.200s` to "
		       "~/.config/cairn/trust, or set CAIRN_TRUST_ENDPOINTS",
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
	return (n == 9 && strncasecmp(host, "localhost", 9) == 0) || (n == 5 && memcmp(host, "[::1]", 5) == 0) ||
	       (n >= 8 && n <= 15 && memcmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n);
}
