/* The series of metrics that a training wrote: JSON objects of numbers, one a line, each with its
 * `step` (steps/train/series.c). */
#include <math.h>
#include <string.h>
#include "base/map.h"
#include "cli/plot/plot.h"
#include "storage/content/content.h"

#define SERIES_MAX_BYTES (512 * MIB)

struct column {
	VEC(struct plot_point) v;
};

static int add_object(struct map *columns, const json_t *o, struct err *err)
{
	const json_t *step = json_object_get(o, "step");
	const char *name;
	json_t *v;

	if (!json_is_object(o) || !json_is_number(step))
		return err_set(err, ERR_INVALID, "not an object with a number `step`");
	json_object_foreach((json_t *)(uintptr_t)o, name, v)
	{
		struct column **slot;

		if (v == step || (!json_is_number(v) && !json_is_null(v)))
			continue;
		slot = (struct column **)map_slot_str(columns, name);
		if (!*slot)
			*slot = xcalloc(1, sizeof(**slot));
		VEC_PUSH(&(*slot)->v,
			 ((struct plot_point){ json_number_value(step),
					       json_is_null(v) ? (double)NAN
							       : json_number_value(v) }));
	}
	return 0;
}

static int read_lines(struct map *columns, const char *text, size_t n, struct err *err)
{
	size_t number = 1;

	for (const char *at = text, *end = text + n; at < end; number++) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t len = eol ? (size_t)(eol - at) : (size_t)(end - at);
		json_t *o;
		int r = json_parse("series", at, len, &o, err);

		if (r == 0) {
			r = add_object(columns, o, err);
			json_decref(o);
		}
		if (r < 0)
			return err_wrap(err, "line %zu of the series", number);
		at += len + (eol != NULL);
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct series_metric *)a)->name,
		      ((const struct series_metric *)b)->name);
}

int series_parse(const char *text, size_t n, struct arena *arena, struct series *ret,
		 struct err *err)
{
	struct map *columns = map_new();
	int r = n ? read_lines(columns, text, n, err) : 0;
	size_t count = map_len(columns);

	ret->metrics = arena_alloc(arena, (count + 1) * sizeof(*ret->metrics));
	ret->n_metrics = count;
	for (size_t i = 0; i < count; i++) {
		const void *name;
		size_t len;
		struct column *c = map_at(columns, i, &name, &len);

		ret->metrics[i] = (struct series_metric){
			arena_strndup(arena, name, len),
			arena_memdup(arena, c->v.v, c->v.n * sizeof(*c->v.v)), c->v.n
		};
		VEC_FREE(&c->v);
		free(c);
	}
	if (count)
		qsort(ret->metrics, count, sizeof(*ret->metrics), by_name);
	map_free(columns);
	return r;
}

static const struct named_content *output_of(const struct facts_task *task)
{
	for (size_t i = 0; i < task->n_outputs; i++)
		if (str_eq(task->outputs[i].name, STEP_SERIES_OUTPUT) &&
		    content_is_file(&task->outputs[i].id))
			return &task->outputs[i];
	return NULL;
}

bool series_is_there(const struct facts_task *task)
{
	return output_of(task) != NULL;
}

int series_load(struct cli *cli, struct store *store, const struct run_row *run,
		const struct facts_task *task, struct series *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct named_content *output = output_of(task);
	struct err why = { 0 };

	if (!output)
		return 0;
	if (content_read(store, &output->id, SERIES_MAX_BYTES, &text, err) < 0)
		return err_wrap(err, "the series of %s in %s", task->task, run->id);
	*ret = (struct series){ .run = run->id, .task = task->task, .started_ns = run->started_ns };
	if (series_parse(text.s, text.len, cli->arena, ret, &why) < 0) {
		cli_warn(cli, "%s in %s is left out: %s", task->task, run->id, why.msg);
		return 0;
	}
	return 1;
}
