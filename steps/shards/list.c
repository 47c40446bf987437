/* steps/shards/list.c — which files of an input are shards. */
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "steps/shards/shards.h"
#include "steps/shards/walk.h"
#include "steps/step.h"

bool shard_is_name(const char *name)
{
	static const char *const suffixes[] = { ".tar",     ".tar.gz", ".tgz",
						".tar.zst", ".tar.xz", ".tar.bz2" };

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
		if (str_has_suffix(name, suffixes[i]))
			return true;
	return false;
}

int shard_list(const char *path, char ***ret, size_t *ret_n, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct walk_list list = { 0 };
	VEC(char *) out = { 0 };
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISDIR(st.st_mode)) {
		*ret = xcalloc(1, sizeof(**ret));
		(*ret)[0] = xstrdup(path);
		*ret_n = 1;
		return 0;
	}
	r = walk_directory(path, arena, &list, err);
	for (size_t i = 0; i < list.files.n && r == 0; i++)
		if (shard_is_name(list.files.v[i].path))
			VEC_PUSH(&out, fs_join(path, list.files.v[i].path));
	VEC_FREE(&list.files);
	if (r < 0)
		return -1;
	if (list.links)
		step_note("%s: %llu links to directories passed over", path,
			  (unsigned long long)list.links);
	if (!out.n)
		return err_set(err, ERR_NOT_FOUND,
			       "%s holds no shards: no file ends in .tar, .tar.gz, .tgz, .tar.zst, "
			       ".tar.xz or .tar.bz2",
			       path);
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

void shard_list_free(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}
