/* steps/shard/shard.c — the step: list, assign, write (see internal.h). */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "steps/shard/internal.h"

#define NUMBERED "shard-[0-9][0-9][0-9][0-9][0-9][0-9]"

static bool is_ours(const char *name)
{
	static const char *const ours[] = { NUMBERED ".tar", NUMBERED "-*.tar", NUMBERED ".tar.zst",
					    NUMBERED "-*.tar.zst" };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (fnmatch(ours[i], name, 0) == 0)
			return true;
	return false;
}

/* Removes the shards of an earlier execution by hand, since that may have made more than this
 * one. */
static int clear_old(const char *path, struct err *err)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int r;

	if (!d)
		return err_errno(err, "cannot read %s", path);
	while ((r = fs_next(d, path, &e, err)) > 0)
		if (is_ours(e->d_name) && unlinkat(dirfd(d), e->d_name, 0) < 0) {
			r = err_errno(err, "cannot remove the old %s/%s", path, e->d_name);
			break;
		}
	closedir(d);
	return r;
}

static int real_path(const char *path, char **ret, struct err *err)
{
	*ret = realpath(path, NULL);
	return *ret ? 0 : err_errno(err, "cannot read %s", path);
}

/* An output's old shards are removed, so the output must be neither the input nor another
 * output. */
static int check_apart(const struct set *s, const struct out_split *out, struct err *err)
{
	_cleanup_(freep) char *in = NULL, *here = NULL;
	const char *data = step_input(s->args, "data")->path;

	if (real_path(data, &in, err) < 0 || real_path(out->path, &here, err) < 0)
		return -1;
	if (fs_is_inside(in, here) || fs_is_inside(here, in))
		return err_set(
			err, ERR_INVALID,
			"output `%s` (%s) and the input (%s) must not be one inside the other",
			out->name, out->path, data);
	for (const struct out_split *o = s->splits; o < out; o++) {
		_cleanup_(freep) char *other = NULL;

		if (real_path(o->path, &other, err) < 0)
			return -1;
		if (strcmp(other, here) == 0)
			return err_set(err, ERR_INVALID,
				       "the outputs `%s` and `%s` are one directory", o->name,
				       out->name);
	}
	return 0;
}

static int make_shards(struct set *s, struct err *err)
{
	struct shard_result *results = NULL;
	size_t n = 0;
	int r;

	if (settings_read(&s->with, s->args, err) < 0 || set_read_splits(s, err) < 0)
		return -1;
	for (size_t i = 0; i < s->n_splits; i++) {
		const struct out_split *out = &s->splits[i];

		if (fs_mkdir_p(out->path, err) < 0)
			return err_wrap(err, "output `%s`", out->name);
		if (check_apart(s, out, err) < 0 || clear_old(out->path, err) < 0)
			return -1;
	}
	if (spool_open(&s->spool, s->splits[0].path, err) < 0 || source_read(s, err) < 0 ||
	    set_assign(s, err) < 0)
		return -1;
	random_bytes(s->fingerprint_key, sizeof(s->fingerprint_key));
	r = set_write_shards(s, &results, &n, err);
	if (r == 0)
		r = set_write_facts(s, results, n, err);
	shard_results_free(results, n);
	return r;
}

static int run(struct step_args *a, struct err *err)
{
	struct set s = { .args = a, .files_fd = -1, .spool.fd = -1, .arena = arena_new() };
	int r;

	pthread_mutex_init(&s.bad_lock, NULL);
	r = make_shards(&s, err);
	settings_deinit(&s.with);
	spool_close(&s.spool);
	if (s.files_fd >= 0)
		close(s.files_fd);
	for (size_t i = 0; i < BAD_EXAMPLES; i++)
		free(s.bad_examples[i]);
	map_free(s.classes.ids);
	map_free(s.groups.ids);
	VEC_FREE(&s.samples);
	free(s.class_numbers);
	free(s.splits);
	arena_free(s.arena);
	pthread_mutex_destroy(&s.bad_lock);
	return r;
}

const struct step_impl step_shard = { "shard", run };
