/* engine/run/task/secret.c — values of secrets: reading, setting, removing and listing them.
 *
 * The environment is read first, then the file. secret_list() keeps that order, so that the entry
 * which wins is the one that is listed.
 *
 * Invariants: a file is opened below the descriptor of a directory that was checked (open_dir()),
 * never by its path, and is checked by its own descriptor (check_file()): so the file that was
 * checked is the one that is read. A wrong owner or mode is refused, and the error says how to
 * correct it. While a file is read its value is never moved in memory (str_reserve()), and the read
 * buffer is wiped.
 *
 * Threads: any, but none may change the environment meanwhile. Not here: masking values in logs
 * (runners/redact.c), passing them to programs (runners/).
 */
#include "run/task/secret.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/redact.h"

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
	return err_set(err, ERR_INVALID,
		       "`%.40s` can't be the name of a secret: letters, digits and _, at most %d, "
		       "not a digit first",
		       name, SECRET_NAME_MAX);
}

/* Opens the directory of secret files and checks it: through a link, or in a directory that others
 * may change, secrets could be stolen or replaced. -1 with ERR_NOT_FOUND when there is none. */
static int open_dir(const struct config *c, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(c->state_dir, "secrets");
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(err, ERR_INVALID,
			       "%s must be a directory, not a link or a file: remove it", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (st.st_uid != geteuid())
		return err_set(err, ERR_INVALID,
			       "%s belongs to another user (%u): secrets are kept in directories "
			       "of their owner alone",
			       path, st.st_uid);
	if (st.st_mode & 022)
		return err_set(err, ERR_INVALID,
			       "others may write to %s; check what is in it, then `chmod 700` it",
			       path);
	return TAKE_FD(fd);
}

static int check_value(const char *name, const char *value, size_t len, struct err *err)
{
	if (memchr(value, 0, len))
		return err_set(err, ERR_INVALID,
			       "the value of secret %s holds a NUL byte, which no environment "
			       "variable can",
			       name);
	if (len > SECRET_VALUE_MAX)
		return err_set(err, ERR_TOO_LARGE, "the value of secret %s is longer than 64 KiB",
			       name);
	return 0;
}

bool secret_is_maskable(const char *value, size_t len)
{
	return redact_can_mask(value, len);
}

/* Refuses a file that another user owns or may read. */
static int check_file(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	if (st.st_uid != geteuid())
		return err_set(err, ERR_INVALID,
			       "the secret %s belongs to another user (%u); set it yourself", path,
			       st.st_uid);
	if (st.st_mode & 077)
		return err_set(
			err, ERR_INVALID,
			"others may read the secret %s; change the secret, then `chmod 600` it",
			path);
	return 0;
}

/* ERR_NOT_FOUND, without a message, when there is no file. */
static int read_kept(const struct config *c, const char *name, struct str *ret, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("%s/secrets/%s", c->state_dir, name);
	_cleanup_(fd_closep) int dir = open_dir(c, err), fd = -1;
	struct stat st;
	char buf[4096];
	ssize_t n;

	if (dir < 0)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP)
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	if (fd < 0)
		return err_errno(err, "cannot read %s", path);
	if (check_file(fd, path, err) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_size > (off_t)SECRET_VALUE_MAX)
		return err_set(err, ERR_TOO_LARGE, "%s is longer than 64 KiB", path);
	str_reserve(ret, SECRET_VALUE_MAX + sizeof(buf)); /* never moved: leaves no copy */
	while ((n = read(fd, buf, sizeof(buf))) > 0 && ret->len <= SECRET_VALUE_MAX)
		str_addn(ret, buf, (size_t)n);
	explicit_bzero(buf, sizeof(buf));
	return n < 0 ? err_errno(err, "cannot read %s", path) : 0;
}

int secret_get(const struct config *c, const char *name, struct str *ret, struct err *err)
{
	_cleanup_(freep) char *variable = NULL;
	const char *value;
	size_t before = ret->len;
	struct err why = { 0 };

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
	if (read_kept(c, name, ret, &why) == 0)
		return check_value(name, ret->s + before, ret->len - before, err);
	if (why.code == ERR_NOT_FOUND)
		return err_set(err, ERR_NOT_FOUND,
			       "secret %s is not set; set it with `cairn secret set %s`, or as %s "
			       "in the environment",
			       name, name, variable);
	return err_pass(err, &why);
}

int secret_set(const struct config *c, const char *name, const char *value, size_t len,
	       struct err *err)
{
	_cleanup_(freep) char *path = fs_join(c->state_dir, "secrets");
	_cleanup_(fd_closep) int dir = -1;

	if (check_name(name, err) < 0 || check_value(name, value, len, err) < 0)
		return -1;
	if (!secret_is_maskable(value, len))
		return err_set(err, ERR_INVALID,
			       "the value of %s is too short: logs would show it, since nothing "
			       "under %d bytes can be masked without hitting ordinary text; what "
			       "isn't secret belongs into `env:` or `params:`",
			       name, REDACT_MIN);
	if (fs_mkdir_p_at(AT_FDCWD, path, 0700, err) < 0 || (dir = open_dir(c, err)) < 0)
		return -1;
	if (fchmod(dir, 0700) < 0)
		return err_errno(err, "cannot make %s private", path);
	return fs_write_atomic_at(dir, name, value, len, 0600, 0, err);
}

int secret_remove(const struct config *c, const char *name, struct err *err)
{
	_cleanup_(fd_closep) int dir = -1;
	struct err why = { 0 };

	if (check_name(name, err) < 0)
		return -1;
	dir = open_dir(c, &why);
	if (dir >= 0 && unlinkat(dir, name, 0) == 0)
		return 0;
	if (dir < 0 ? why.code == ERR_NOT_FOUND : errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND,
			       "no secret %s is kept here; see `cairn secret list`", name);
	return dir < 0 ? err_pass(err, &why) : err_errno(err, "cannot remove the secret %s", name);
}

/* List. */

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
			return; /* the environment came first and wins */
	e.name = xstrdup(name);
	VEC_PUSH(&l->entries, e);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct secret_entry *)a)->name,
		      ((const struct secret_entry *)b)->name);
}

static int list_files(struct list *l, const struct config *c, struct err *err)
{
	struct err why = { 0 };
	int fd = open_dir(c, &why);
	_cleanup_(closedirp) DIR *d = fs_list(fd);
	struct dirent *e;
	int r;

	if (fd < 0)
		return why.code == ERR_NOT_FOUND ? 0 : err_pass(err, &why);
	if (!d)
		return err_errno(err, "cannot list the secrets");
	while ((r = fs_next(d, "of the secrets", &e, err)) > 0)
		add(l, e->d_name, false);
	return r;
}

int secret_list(const struct config *c, struct secret_entry **ret, size_t *ret_n, struct err *err)
{
	struct list l = { 0 };

	for (char **e = environ; *e; e++) {
		const char *eq = strchr(*e, '=');
		_cleanup_(freep) char *name = NULL;

		if (!eq || !str_has_prefix(*e, ENV_PREFIX))
			continue;
		name = xstrndup(*e + strlen(ENV_PREFIX), (size_t)(eq - *e) - strlen(ENV_PREFIX));
		add(&l, name, true);
	}
	if (list_files(&l, c, err) < 0) {
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
