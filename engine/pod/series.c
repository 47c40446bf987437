/* engine/pod/series.c — the newest numbers of a training, for people who watch: a line in the
 * sidecar's own log, which the engine reads while somebody watches (runners/kubernetes,
 * kubernetes/series.c). Nothing goes into the store, and without a watcher nobody asks. */
#include "runners/series.h"
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/text/json.h"
#include "pod/internal.h"

/* Limits of a line: people read no more. */
#define NUMBERS_MAX    24
#define NAME_MAX_BYTES 24

static void add_number(void *arg, const char *name, double value)
{
	json_t *line = arg;

	if (json_object_size(line) <= NUMBERS_MAX && strlen(name) <= NAME_MAX_BYTES &&
	    strcmp(name, POD_SERIES_KEY) != 0)
		json_object_set_new(line, name, json_real(value));
}

void pod_series_look(struct pod *p, struct pod_slot *s)
{
	_cleanup_(json_decrefp) json_t *line = NULL;
	char *text;

	assert(s->a->series_path);
	if (!s->series) {
		s->series = xcalloc(1, sizeof(*s->series));
		s->series->fd = -1;
	}
	if (s->series->fd <
	    0) /* not by series_poll(): the program may have put a link into the path */
		s->series->fd =
			fs_open_beneath(s->w_fd, s->a->series_path, O_RDONLY | O_NONBLOCK, false);
	if (s->series->fd < 0)
		return;
	line = json_pack("{s:I}", POD_SERIES_KEY, (json_int_t)s->a->id);
	series_poll(s->series, -1, "", add_number, line);
	if (json_object_size(line) < 2)
		return;
	text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)); /* steps reach millions */
	pod_say(p, "%s", text);
	free(text);
}

void pod_series_deinit(struct pod_slot *s)
{
	if (s->series)
		series_close(s->series);
	free(s->series);
	s->series = NULL;
}
