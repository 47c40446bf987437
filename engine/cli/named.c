#include "cli/named.h"

int named_run(struct cli *cli, struct db *db, const char *what, struct run_row *ret,
	      struct err *err)
{
	return record_find_run(db, what ? what : "last", cli->arena, ret, err);
}

int named_run_tasks(struct cli *cli, struct db *db, const struct run_row *run,
		    struct facts_task **ret, size_t *ret_n, struct err *err)
{
	struct store *s = NULL;

	if (run->results.kind && cli_store(cli, false, &s, err) < 0)
		return err_wrap(err, "results of run %s", run->id);
	return facts_read_tasks(db, s, run, cli->arena, ret, ret_n, err);
}

/* TASK/OUTPUT. */

static const struct named_content *output_named(const struct facts_task *t, const char *name)
{
	if (!name)
		return t->n_outputs == 1 ? &t->outputs[0] : NULL;
	for (size_t i = 0; i < t->n_outputs; i++)
		if (str_eq(t->outputs[i].name, name))
			return &t->outputs[i];
	return NULL;
}

/* The name before `/`, when an output's name follows; labels may hold slashes themselves. */
static bool names_task(const struct facts_task *t, const char *what, size_t n)
{
	return (strlen(t->task) == n && memcmp(t->task, what, n) == 0) ||
	       (strlen(t->step) == n && memcmp(t->step, what, n) == 0);
}

int named_find_output(const struct facts_task *tasks, size_t n, const char *what,
		      const struct facts_task **ret_task, const struct named_content **ret,
		      struct err *err)
{
	const char *slash = strrchr(what, '/');
	const struct facts_task *several = NULL, *without = NULL;
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct named_content *o = NULL;

		if (names_task(&tasks[i], what, strlen(what)))
			o = output_named(&tasks[i], NULL), without = o ? without : &tasks[i];
		else if (slash && names_task(&tasks[i], what, (size_t)(slash - what)))
			o = output_named(&tasks[i], slash + 1), without = o ? without : &tasks[i];
		if (!o || o->id.kind == CONTENT_NONE)
			continue;
		several = found ? tasks + i : several;
		if (found++ == 0) {
			*ret_task = &tasks[i];
			*ret = o;
		}
	}
	if (found == 1)
		return 0;
	if (several)
		return err_set(err, ERR_INVALID, "`%s` could be %s or %s: name the task", what,
			       (*ret_task)->task, several->task);
	if (without && without->n_outputs > 1)
		return err_set(err, ERR_NOT_FOUND,
			       "`%s`: task %s has %zu outputs; name one as %s/%s", what,
			       without->task, without->n_outputs, without->task,
			       without->outputs[0].name);
	return err_set(err, ERR_NOT_FOUND, "the run has no output `%s` (write TASK/OUTPUT)", what);
}

size_t named_find_outputs(const struct facts_task *tasks, size_t n, const char *what,
			  struct named_output *ret, size_t *ret_of)
{
	const char *slash = strrchr(what, '/');
	size_t found = 0;

	*ret_of = 0;
	for (size_t i = 0; i < n; i++) {
		bool alone = str_eq(tasks[i].step, what);
		const struct named_content *o = NULL;

		if (!alone && !(slash && strlen(tasks[i].step) == (size_t)(slash - what) &&
				str_has_prefix(what, tasks[i].step)))
			continue;
		++*ret_of;
		o = output_named(&tasks[i], alone ? NULL : slash + 1);
		if (o && o->id.kind != CONTENT_NONE)
			ret[found++] = (struct named_output){ &tasks[i], o };
	}
	return found;
}
