/* runners/checkpoint.c — directories that outlive the local runner's attempts. */
#include "runners/checkpoint.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"

/* Enough for the ids of a few thousand attempts. */
#define ATTEMPTS_MAX (64 * KIB)

static char *directory_of(const char *state_dir, const struct digest *key)
{
	char hex[DIGEST_HEX_MAX];

	return xasprintf("%s/checkpoints/%s", state_dir, digest_hex(key, hex));
}

static int is_empty(const char *path, bool *ret, struct err *err)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int r;

	if (!d)
		return err_errno(err, "cannot read directory %s", path);
	r = fs_next(d, path, &e, err);
	closedir(d);
	*ret = r == 0;
	return r < 0 ? -1 : 0;
}

/* Gives the attempts that used it before, and adds this one. An attempt that is retried after the
 * engine's crash is already in the list. */
static int note_attempt(const char *dir, uint64_t attempt_id, bool empty, char **ret,
			struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("%s/attempts", dir),
			      *mine = xasprintf("%llu", (unsigned long long)attempt_id);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err why = { 0 };
	const char *last;

	if (!empty && fs_read_file(path, ATTEMPTS_MAX, &text, &why) < 0 &&
	    why.code != ERR_NOT_FOUND) {
		*err = why;
		return -1;
	}
	last = text.len ? strrchr(text.s, ' ') : NULL;
	if (text.len && strcmp(last ? last + 1 : text.s, mine) == 0)
		text.s[text.len = last ? (size_t)(last - text.s) : 0] = '\0';
	*ret = text.len ? xstrndup(text.s, text.len) : NULL;
	str_addf(&text, "%s%s", text.len ? " " : "", mine);
	if (fs_write_atomic(path, text.s, text.len, err) < 0) {
		free(*ret);
		*ret = NULL;
		return -1;
	}
	return 0;
}

int checkpoint_attach(const char *state_dir, const struct runner_attempt *a, int dir_fd,
		      char **ret_continues, struct err *err)
{
	_cleanup_(freep) char *dir = directory_of(state_dir, a->key),
			      *data = xasprintf("%s/data", dir),
			      *series = xasprintf("%s/series.jsonl", dir);
	_cleanup_(freep) char *continues = NULL, *parent = fs_dirname(a->checkpoint_path);
	_cleanup_(fd_closep) int parent_fd = -1;
	bool empty = false;

	assert(a->id > 0 && dir_fd >= 0);
	if (fs_mkdir_p(data, err) < 0 || is_empty(data, &empty, err) < 0)
		return err_wrap(err, "keeping a checkpoint");
	if (empty) /* nothing was saved: the program starts anew, and so do its metrics */
		(void)unlink(series);
	if (note_attempt(dir, a->id, empty, &continues, err) < 0)
		return err_wrap(err, "keeping a checkpoint");
	parent_fd = fs_make_beneath(dir_fd, parent, 0755, err);
	if (parent_fd < 0)
		return err_wrap(err, "making room for the checkpoint");
	if (symlinkat(data, parent_fd, fs_basename(a->checkpoint_path)) < 0)
		return err_errno(err, "cannot put the checkpoint at %s", a->checkpoint_path);
	*ret_continues = TAKE_PTR(continues);
	return 0;
}

void checkpoint_drop(const char *state_dir, const struct digest *key)
{
	_cleanup_(freep) char *dir = directory_of(state_dir, key);

	fs_remove_tree(dir, NULL);
}
