#include "serve/discover.h"

#include <dirent.h>
#include <string.h>
#include "base/fs.h"

#define PIPELINE_FILE_MAX (16 * MIB)
#define PIPELINE_FILES_MAX 10000

static bool has_line(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0)
			return true;
	}
	return false;
}

/* As far as can be told without reading it as a pipeline: a broken one must be found too. */
static bool is_scheduled(const char *path)
{
	struct str text = { 0 };
	bool yes = fs_read_file(path, PIPELINE_FILE_MAX, &text, NULL) == 0 && text.len && has_line(text.s, "pipeline:") && has_line(text.s, "schedules:");

	str_deinit(&text);
	return yes;
}

struct found {
	VEC(const char *) v;
};

static void look_in(const char *root, const char *folder, struct arena *arena, struct found *f)
{
	_cleanup_(freep) char *dir = xasprintf("%s/%s", root, folder);
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d)) && f->v.n < PIPELINE_FILES_MAX;) {
		_cleanup_(freep) char *path = xasprintf("%s/%s", dir, e->d_name);

		if (e->d_name[0] == '.' || str_eq(e->d_name, "cairn.yaml") || (!str_has_suffix(e->d_name, ".yaml") && !str_has_suffix(e->d_name, ".yml")))
			continue;
		if (is_scheduled(path))
			VEC_PUSH(&f->v, arena_printf(arena, "%s%s%s", *folder ? folder : "", *folder ? "/" : "", e->d_name));
	}
	if (d)
		closedir(d);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void discover_scheduled(const char *root, struct arena *arena, const char ***ret, size_t *ret_n)
{
	struct found f = { 0 };

	look_in(root, "", arena, &f);
	look_in(root, "pipelines", arena, &f);
	if (f.v.n)
		qsort(f.v.v, f.v.n, sizeof(*f.v.v), by_text);
	VEC_TO_ARENA(&f.v, arena, ret, ret_n);
}
