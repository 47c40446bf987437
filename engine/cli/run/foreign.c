#include "cli/run/foreign.h"
#include <string.h>

static bool is_left_out(const struct reproduce_options *o, const char *step)
{
	bool chosen = o->n_only == 0 || o->mode == REPRODUCE_CHAINED;
	size_t n = strlen(step);

	for (size_t i = 0; i < o->n_skip; i++)
		if (str_eq(o->skip[i], step))
			return true;
	for (size_t i = 0; i < o->n_only && !chosen; i++) /* `train[fold=0]` belongs to `train` */
		chosen = strncmp(o->only[i], step, n) == 0 &&
			 (o->only[i][n] == '\0' || o->only[i][n] == '[');
	return !chosen;
}

static void show_step(struct cli *cli, const struct step *s)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	for (size_t i = 0; s->program.run && i < s->program.run->n_parts; i++) {
		if (s->program.run->parts[i].expr)
			str_add(&text, "${{ ... }}");
		else
			str_addn(&text, s->program.run->parts[i].text,
				 s->program.run->parts[i].len);
	}
	if (cli->json) {
		cli_warn(cli, "step %s would execute %s", s->name,
			 text.len ? text.s : "a built-in step");
		return;
	}
	fprintf(cli->err, "step %s: %s\n", cli_text(cli, s->name),
		text.len ? cli_text(cli, text.s) : "a built-in step");
	for (size_t i = 0; i < s->reads->n_tools; i++)
		fprintf(cli->err, "    tool: %s\n", cli_text(cli, s->reads->tools[i]));
	for (size_t i = 0; i < s->reads->n_secrets; i++)
		fprintf(cli->err, "    secret: %s\n", cli_text(cli, s->reads->secrets[i]));
}

int foreign_check(struct cli *cli, const struct cli_args *args, struct store *s,
		  const struct run_row *row, const struct reproduce_options *o, struct err *err)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	bool trusted = cli_flag(args, "trust");
	const char *id = cli_text(cli, row->id);
	size_t n_given;
	const char *const *given = cli_values(args, "secret", cli->arena, &n_given);

	if (pipeline_files_load(s, &row->pipeline_blob, row->path, &p, err) < 0)
		return err_wrap(err, "run %s", row->id);
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *step = &p->steps[i];

		if (is_left_out(o, step->name))
			continue;
		if (!trusted)
			show_step(cli, step);
		for (size_t k = 0; trusted && k < step->reads->n_secrets; k++) {
			size_t at = 0;

			while (at < n_given && !str_eq(given[at], step->reads->secrets[k]))
				at++;
			if (at == n_given)
				return err_set(err, ERR_INVALID,
					       "run %s wasn't begun in this project, and its step "
					       "%s needs the secret %s: give --secret %s, or leave "
					       "the step out",
					       id, step->name, step->reads->secrets[k],
					       step->reads->secrets[k]);
		}
	}
	if (trusted)
		return 0;
	return err_set(err, ERR_INVALID,
		       "run %s wasn't begun in this project: this is what it would execute, as "
		       "you. Read it (`cairn get %s -o DIR` has all files), and give --trust if "
		       "you trust whoever may write to %s",
		       id, id, store_uri(s));
}
