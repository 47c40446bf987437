/* storage/bucket/s3/credentials_file.c — reads the shared files of AWS tools, ~/.aws/credentials
 * and ~/.aws/config, as botocore reads INI.
 *
 * [name] in the first file, [profile name] or [default] in the second; key = value. # and ; at a
 * line's start are comments, " #" and " ;" in a line too. Indented lines below a key are a nested
 * section ("s3 ="): they are read in [services x], where each service has its endpoint_url, and
 * skipped elsewhere.
 *
 * Both files go into one map of values. The credentials file is read first and the first value
 * stays, so it wins. A file that is missing is empty; one that can't be read, or isn't text, is an
 * error. What the values mean is in credentials_profile.c.
 */
#include "storage/bucket/s3/credentials_internal.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"

struct ini {
	struct arena *arena;
	struct map *values; /* "PROFILE\0KEY" → value */
	struct map *profiles;
};

static char *trim(char *s)
{
	size_t n;

	while (*s == ' ' || *s == '\t')
		s++;
	n = strlen(s);
	while (n && strchr(" \t\r", s[n - 1]))
		s[--n] = '\0';
	return s;
}

static void cut_comment(char *s)
{
	for (char *p = s; *p; p++)
		if ((*p == '#' || *p == ';') && p > s && (p[-1] == ' ' || p[-1] == '\t')) {
			*p = '\0';
			return;
		}
}

#define SERVICES "services "

static bool is_services(const char *name)
{
	return str_has_prefix(name, SERVICES);
}

/* The profile that a [heading] names; NULL for other headings ("sso-session x"). For "services y"
 * returns the whole heading, which can't be a profile's name. */
static char *heading_profile(char *heading, bool config)
{
	char *end = strchr(heading, ']'), *name;

	if (!end)
		return NULL;
	*end = '\0';
	name = trim(heading + 1);
	if (!config || str_eq(name, "default"))
		return name;
	if (is_services(name))
		return name;
	if (!str_has_prefix(name, "profile ") && !str_has_prefix(name, "profile\t"))
		return NULL;
	name = trim(name + strlen("profile "));
	if (*name == '"' && name[1] && name[strlen(name) - 1] == '"') {
		name[strlen(name) - 1] = '\0';
		name++;
	}
	return name;
}

/* The caller frees it. */
static struct str value_key(const char *profile, const char *key)
{
	struct str k = { 0 };

	str_addn(&k, profile, strlen(profile) + 1);
	str_add(&k, key);
	return k;
}

/* `service`: "s3." for lines indented below `s3 =`, "" elsewhere. */
static void take_line(struct ini *i, const char *profile, const char *service, char *line)
{
	char *eq = strchr(line, '=');
	_cleanup_(freep) char *name = NULL;
	_cleanup_(str_deinit) struct str key = { 0 };
	void **slot;

	if (!eq)
		return;
	*eq = '\0';
	for (char *p = line; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + 32);
	cut_comment(eq + 1);
	name = xasprintf("%s%s", service, trim(line));
	key = value_key(profile, name);
	slot = map_slot(i->values, key.s, key.len, NULL);
	if (!*slot)
		*slot = arena_strdup(i->arena, trim(eq + 1));
}

static void parse(struct ini *i, char *text, bool config)
{
	const char *profile = NULL, *service = "";
	char *next;

	for (char *line = text; line; line = next) {
		bool indented = *line == ' ' || *line == '\t';

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line == '#' || *line == ';' || *line == '\0' || (indented && !*service))
			continue;
		if (indented) {
			take_line(i, profile, service, line);
		} else if (*line == '[') {
			char *name = heading_profile(line, config);

			service = "";
			profile = name ? arena_strdup(i->arena, name) : NULL;
			if (profile && !is_services(profile))
				map_slot_str(i->profiles, profile);
		} else if (profile && is_services(profile)) {
			size_t n = strcspn(line, " \t=");

			service = arena_printf(i->arena, "%.*s.", (int)n, line);
		} else if (profile) {
			take_line(i, profile, "", line);
		}
	}
}

static char *shared_path(const char *variable, const char *name)
{
	const char *v = credentials_env(variable), *home = credentials_env("HOME");

	if (v && str_has_prefix(v, "~/") && home)
		return fs_join(home, v + 2);
	if (v)
		return xstrdup(v);
	return home ? xasprintf("%s/.aws/%s", home, name) : NULL;
}

static int read_shared(struct ini *i, const char *variable, const char *name, bool config,
		       struct err *err)
{
	_cleanup_(freep) char *path = shared_path(variable, name);
	struct str text = { 0 };
	struct err why = { 0 };
	int r = 0;

	if (!path)
		return 0;
	if (fs_read_file(path, CREDENTIALS_FILE_MAX, &text, &why) == 0 && text.s) {
		if (strlen(text.s) == text.len)
			parse(i, text.s, config);
		else
			r = err_set(err, ERR_INVALID, "%s isn't a text file", path);
	} else if (why.code && why.code != ERR_NOT_FOUND) {
		r = err_set(err, ERR_INVALID, "%s", why.msg);
	}
	str_wipe(&text);
	return r;
}

int ini_load(struct ini **ret, struct err *err)
{
	struct ini *i = xcalloc(1, sizeof(*i));

	i->arena = arena_new();
	i->values = map_new();
	i->profiles = map_new();
	if (read_shared(i, "AWS_SHARED_CREDENTIALS_FILE", "credentials", false, err) < 0 ||
	    read_shared(i, "AWS_CONFIG_FILE", "config", true, err) < 0) {
		ini_free(i);
		return -1;
	}
	*ret = i;
	return 0;
}

void ini_free(struct ini *i)
{
	if (!i)
		return;
	for (size_t k = 0; k < map_len(i->values); k++) {
		char *v = map_at(i->values, k, NULL, NULL);

		if (v) /* some are secrets */
			explicit_bzero(v, strlen(v));
	}
	map_free(i->values);
	map_free(i->profiles);
	arena_free(i->arena);
	free(i);
}

bool ini_has_profile(const struct ini *i, const char *profile)
{
	return map_has(i->profiles, profile, strlen(profile));
}

const char *ini_get(const struct ini *i, const char *profile, const char *key)
{
	_cleanup_(str_deinit) struct str k = value_key(profile, key);
	const char *v = map_get(i->values, k.s, k.len);

	return v && *v ? v : NULL;
}

char *ini_service_endpoint(const struct ini *i, const char *profile, const char *service)
{
	const char *services = ini_get(i, profile, "services"), *v = NULL;

	if (services) {
		_cleanup_(freep) char *section = xasprintf(SERVICES "%s", services),
				      *key = xasprintf("%s.endpoint_url", service);

		v = ini_get(i, section, key);
	}
	if (!v)
		v = ini_get(i, profile, "endpoint_url");
	return v ? xstrdup(v) : NULL;
}
