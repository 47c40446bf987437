#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include "base/fs.h"
#include "base/mem.h"
#include "run/secret.h"

#define ENV_PREFIX "CAIRN_SECRET_"

extern char **environ;

bool secret_name_is_valid(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > SECRET_NAME_MAX || isdigit((unsigned char)*name))
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static int check_name(const char *name, struct err *err)
{
	if (secret_name_is_valid(name))
		return 0;
	return err_set(err, ERR_INVALID, "`%.40s` can't be the name of a secret: letters, digits and _, at most %d, not a digit first", name,
		       SECRET_NAME_MAX);
}

static char *path_of(const struct config *c, const char *name)
{
	return xasprintf("%s/secrets/%s", c->state_dir, name);
}

void secret_wipe(struct str *v)
{
	if (v->s)
		explicit_bzero(v->s, v->cap);
	str_deinit(v);
}

static int check_value(const char *name, const char *value, size_t len, struct err *err)
{
	if (memchr(value, 0, len))
		return err_set(err, ERR_INVALID, "the value of secret %s holds a NUL byte, which no environment variable can", name);
	if (len > SECRET_VALUE_MAX)
		return err_set(err, ERR_TOO_LARGE, "the value of secret %s is longer than 64 KiB", name);
	return 0;
}

/* A secret that somebody else may read isn't one. */
static int check_mode(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	if (st.st_mode & 077)
		return err_set(err, ERR_INVALID, "others may read the secret %s; change the secret, then `chmod 600` it", path);
	return 0;
}

int secret_get(const struct config *c, const char *name, struct str *ret, struct err *err)
{
	_cleanup_(freep) char *variable = NULL, *path = NULL;
	const char *value;
	size_t before = ret->len;

	if (check_name(name, err) < 0)
		return -1;
	variable = xasprintf(ENV_PREFIX "%s", name);
	value = getenv(variable);
	if (value) {
		if (check_value(name, value, strlen(value), err) < 0)
			return -1;
		str_add(ret, value);
		return 0;
	}
	path = path_of(c, name);
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "secret %s is not set; set it with `cairn secret set %s`, or as %s in the environment", name, name,
			       variable);
	if (check_mode(path, err) < 0 || fs_read_file(path, SECRET_VALUE_MAX, ret, err) < 0)
		return -1;
	return check_value(name, ret->s ? ret->s + before : "", ret->len - before, err);
}

int secret_set(const struct config *c, const char *name, const char *value, size_t len, struct err *err)
{
	_cleanup_(freep) char *path = NULL, *dir = NULL;

	if (check_name(name, err) < 0 || check_value(name, value, len, err) < 0)
		return -1;
	path = path_of(c, name);
	dir = fs_dirname(path);
	if (fs_mkdir_p_at(AT_FDCWD, dir, 0700, err) < 0)
		return -1;
	if (chmod(dir, 0700) < 0)
		return err_errno(err, "cannot keep %s from others", dir);
	return fs_write_atomic_at(AT_FDCWD, path, value, len, 0600, 0, err);
}

int secret_remove(const struct config *c, const char *name, struct err *err)
{
	_cleanup_(freep) char *path = NULL;

	if (check_name(name, err) < 0)
		return -1;
	path = path_of(c, name);
	if (unlink(path) == 0)
		return 0;
	if (errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "no secret %s is kept here; see `cairn secret list`", name);
	return err_errno(err, "cannot remove %s", path);
}

/* --- list -------------------------------------------------------------------------------------------------------------------- */

struct list {
	VEC(struct secret_entry) entries;
};

static void add(struct list *l, const char *name, bool from_environment)
{
	struct secret_entry e = { NULL, from_environment };

	if (!secret_name_is_valid(name))
		return;
	for (size_t i = 0; i < l->entries.n; i++)
		if (strcmp(l->entries.v[i].name, name) == 0)
			return; /* the environment came first, and wins */
	e.name = xstrdup(name);
	VEC_PUSH(&l->entries, e);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct secret_entry *)a)->name, ((const struct secret_entry *)b)->name);
}

static void list_environment(struct list *l)
{
	for (char **e = environ; *e; e++) {
		const char *eq = strchr(*e, '=');
		_cleanup_(freep) char *name = NULL;

		if (!eq || !str_has_prefix(*e, ENV_PREFIX))
			continue;
		name = xstrndup(*e + strlen(ENV_PREFIX), (size_t)(eq - *e) - strlen(ENV_PREFIX));
		add(l, name, true);
	}
}

static int list_files(struct list *l, const char *path, struct err *err)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return errno == ENOENT ? 0 : err_errno(err, "cannot read %s", path);
	while ((e = readdir(d)))
		add(l, e->d_name, false);
	closedir(d);
	return 0;
}

int secret_list(const struct config *c, struct secret_entry **ret, size_t *ret_n, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(c->state_dir, "secrets");
	struct list l = { 0 };

	list_environment(&l);
	if (list_files(&l, path, err) < 0) {
		for (size_t i = 0; i < l.entries.n; i++)
			free(l.entries.v[i].name);
		VEC_FREE(&l.entries);
		return -1;
	}
	if (l.entries.n)
		qsort(l.entries.v, l.entries.n, sizeof(*l.entries.v), by_name);
	*ret = l.entries.v;
	*ret_n = l.entries.n;
	return 0;
}
