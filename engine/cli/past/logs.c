#include <assert.h>
#include "base/map.h"
#include "cli/past/past.h"

int logs_options(const struct cli_args *args, struct logs_options *ret, struct err *err)
{
	uint64_t rank = 0;

	*ret = (struct logs_options){ .follow = cli_flag(args, "follow") };
	if (cli_uint(args, "lines", 1, UINT32_MAX, &ret->part.lines, err) < 0 ||
	    cli_uint(args, "rank", 0, UINT32_MAX, &rank, err) < 0 ||
	    cli_uint(args, "attempt", 1, UINT32_MAX, &ret->attempt, err) < 0)
		return -1;
	ret->part.of_rank = cli_value(args, "rank") != NULL;
	ret->part.rank = (uint32_t)rank;
	return 0;
}

/* Moves to the end of the list, in their order, the last log of each task or the one of `attempt`;
 * returns their start. *ret_tasks: the number of tasks in the list. */
static size_t drop_superseded(logged_list *all, uint64_t attempt, size_t *ret_tasks)
{
	_cleanup_(map_freep) struct map *tasks = map_new();
	size_t begin = all->n;

	for (size_t i = all->n; i-- > 0;) {
		const struct logged l = all->v[i];
		bool is_last;

		assert(l.task);
		map_slot(tasks, l.task, strlen(l.task), &is_last);
		if (attempt ? l.attempt == attempt : is_last)
			all->v[--begin] = l;
	}
	*ret_tasks = map_len(tasks);
	return begin;
}

int logs_choose(const struct cli_args *args, uint64_t attempt, const char *run, logged_list *all,
		struct err *err)
{
	const char *server = cli_flag(args, "server") ? " --server" : "";
	logged_list chosen = { 0 };
	size_t n_tasks, begin = drop_superseded(all, attempt, &n_tasks);

	assert(run);
	for (size_t i = begin; args->n_operands == 0 && i < all->n; i++)
		if (all->v[i].unfinished || n_tasks == 1)
			VEC_PUSH(&chosen, all->v[i]);
	for (size_t k = 0; k < args->n_operands; k++)
		for (size_t i = begin; i < all->n; i++) {
			struct logged *l = &all->v[i];

			if (!l->task || !(str_eq(args->operands[k], l->task) ||
					  step_name_is_in(l->step, args->operands[k])))
				continue;
			VEC_PUSH(&chosen, *l);
			l->task = NULL; /* found; other operands that name it are ignored */
		}
	VEC_FREE(all);
	*all = chosen;
	if (chosen.n)
		return 0;
	if (attempt)
		return err_set(err, ERR_NOT_FOUND,
			       "run %s has no attempt %llu of that; `cairn status -v %s%s` lists "
			       "its attempts",
			       run, (unsigned long long)attempt, run, server);
	if (args->n_operands)
		return err_set(err, ERR_NOT_FOUND,
			       "run %s has no log of that name; `cairn status -v %s%s` lists its "
			       "attempts",
			       run, run, server);
	return err_set(err, ERR_NOT_FOUND,
		       "nothing failed or is running in %s: name a task or a step", run);
}

bool logs_are_followed(const struct logs_options *o, const logged_list *logs)
{
	size_t n = 0;

	for (size_t i = 0; i < logs->n; i++)
		n += logs->v[i].running;
	return o->follow && n > 1;
}

void logs_print_head(struct cli *cli, const struct logged *l)
{
	cli_printf(cli, "%s==> %s%s <==%s\n", cli_style(cli, STYLE_BOLD), cli_text(cli, l->task),
		   l->attempt > 1 ? " (again)" : "", cli_style(cli, STYLE_PLAIN));
}
