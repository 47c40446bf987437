/* engine/pod/series.c — the newest numbers of a training, for people who watch: a line in the
 * sidecar's own log, which the engine reads while somebody watches (runners/kubernetes,
 * kubernetes/series.c). Nothing goes into the store, and without a watcher nobody asks. */
#include "runners/series/series.h"
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/text/json.h"
#include "pod/internal.h"

/* Limits of a line: people read no more. */
#define NUMBERS_MAX    24
#define NAME_MAX_BYTES 64

struct said {
	struct pod *p;
	uint64_t attempt_id;
	json_t *line;
};

static void say_line(struct said *s)
{
	if (s->line && json_object_size(s->line) > 1) {
		/* steps reach millions */
		char *text = json_dumps(s->line, JSON_COMPACT | JSON_REAL_PRECISION(9));

		if (s->p->o.say)
			s->p->o.say(text);
		free(text);
	}
	json_decref(s->line);
	s->line = json_pack("{s:I}", POD_SERIES_KEY, (json_int_t)s->attempt_id);
}

/* A name that would make a line longer than it looks tells nobody anything. */
static bool is_plain(const char *name)
{
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\')
			return false;
	return strlen(name) <= NAME_MAX_BYTES && strcmp(name, POD_SERIES_KEY) != 0;
}

/* A step begins a line: a directory has numbers of several. */
static void add_number(void *arg, const char *name, double value)
{
	struct said *s = arg;

	if (strcmp(name, SERIES_STEP) == 0)
		say_line(s);
	if (json_object_size(s->line) <= NUMBERS_MAX && is_plain(name))
		json_object_set_new(s->line, name, json_real(value));
}

void pod_series_look(struct pod *p, struct pod_slot *s)
{
	struct said said = { .p = p, .attempt_id = s->a->id };

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
	say_line(&said); /* begins it */
	series_poll(s->series, -1, "", add_number, &said);
	say_line(&said);
	json_decref(said.line);
}

void pod_series_deinit(struct pod_slot *s)
{
	if (s->series)
		series_close(s->series);
	free(s->series);
	s->series = NULL;
}
