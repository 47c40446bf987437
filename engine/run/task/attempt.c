#include "run/task/attempt.h"

static void add_known(struct runner_attempt *a, const struct task_command *c, struct arena *arena)
{
	struct runner_input *in = arena_alloc(arena, (c->n_inputs + 1) * sizeof(*in));

	for (size_t i = 0; i < c->n_inputs; i++)
		in[i] = (struct runner_input){ c->inputs[i].name, c->inputs[i].path,
					       c->inputs[i].id, c->inputs[i].volume };
	a->inputs = in;
	a->n_inputs = c->n_inputs;
	a->argv = c->argv;
	a->env = c->env;
	a->on.image = c->image;
	a->code = c->code.kind ? &c->code : NULL;
	a->grace_ns = c->grace_ns;
}

/* Paths have no file extension where it isn't known yet. */
static void add_unknown(struct runner_attempt *a, const struct step *s, struct arena *arena)
{
	static const char *const no_words[] = { NULL };
	struct runner_input *in = arena_alloc(arena, (s->n_inputs + 1) * sizeof(*in));

	for (size_t i = 0; i < s->n_inputs; i++)
		in[i] = (struct runner_input){ .name = s->inputs[i].name,
					       .path = arena_printf(arena, "inputs/%s",
								    s->inputs[i].name) };
	a->inputs = in;
	a->n_inputs = s->n_inputs;
	a->argv = a->env = no_words;
}

void attempt_of_step(const struct step *s, const struct task_command *c, struct arena *arena,
		     struct runner_attempt *ret)
{
	const struct distributed_decl *d = &s->machine->distributed;
	struct runner_output *out = arena_alloc(arena, (s->n_outputs + 1) * sizeof(*out));
	const char **secrets = arena_alloc(arena, (s->reads->n_secrets + 1) * sizeof(*secrets));

	for (size_t i = 0; i < s->n_outputs; i++)
		out[i] = (struct runner_output){ s->outputs[i].name, s->outputs[i].path,
						 s->outputs[i].is_dir };
	for (size_t i = 0; i < s->reads->n_secrets; i++)
		secrets[i] = arena_printf(arena, "%s=", s->reads->secrets[i]);
	*ret = (struct runner_attempt){ .on.step = s->name,
					.secrets = secrets,
					.outputs = out,
					.n_outputs = s->n_outputs,
					.metrics_path = s->measured->metrics,
					.series_path = s->measured->series,
					.checkpoint_path = s->checkpoint,
					.local.copies = s->machine->copies,
					.timeout_ns = s->policy->timeout_ns,
					.forwards_signals = step_is_launched(s),
					.on.placement_json = s->machine->place.json,
					.on.pack = s->machine->place.pack,
					.resources = { .cpu_milli = s->machine->resources.cpu_milli,
						       .memory_bytes =
							       s->machine->resources.memory_bytes,
						       .gpus = s->machine->resources.gpus } };
	if (d->framework)
		ret->on.gang = (struct runner_gang){ .framework = d->framework,
						     .nodes = d->nodes,
						     .min_nodes = d->min_nodes,
						     .procs_per_node = d->procs_per_node,
						     .servers = d->servers };
	if (c)
		add_known(ret, c, arena);
	else
		add_unknown(ret, s, arena);
}
