/* runners/fake.c — a runner that executes nothing: attempts end at a time on the loop's clock.
 *
 * It serves tests of the engine. submit() asks the script how the attempt ends, reports its start
 * at once, and sets a timer for its end, or one for that of its program and then one for that of
 * taking in its outputs. Everything is on the loop's thread. Running attempts are a
 * linked list. `seen` holds every submitted id, so a second submit() of one does nothing. Nothing
 * outlives the runner; the durable fake is fake_world.c.
 */
#include "base/map.h"
#include "base/mem.h"
#include "runners/runner.h"

struct fake_attempt {
	struct fake *fake;
	const struct runner_attempt *a;
	struct loop_source *timer;
	enum failure_class failure;
	bool exited;
	int64_t started_ns;
	struct content_id *outputs;
	char *metrics_json;
	struct fake_attempt *next;
};

struct fake {
	struct runner base;
	struct loop *loop;
	struct runner_fake_options o;
	struct fake_attempt *running;
	size_t n_submitted, n_running, n_taking_in;
	struct map *seen; /* attempt ids */
};

static struct fake *fake_of(const struct runner *r)
{
	return CONTAINER_OF(r, struct fake, base);
}

static void forget(struct fake *f, struct fake_attempt *fa)
{
	for (struct fake_attempt **at = &f->running; *at; at = &(*at)->next)
		if (*at == fa) {
			*at = fa->next;
			break;
		}
	*(fa->exited ? &f->n_taking_in : &f->n_running) -= 1;
	free(fa->outputs);
	free(fa->metrics_json);
	free(fa);
}

static void on_timer(void *arg)
{
	struct fake_attempt *fa = arg;
	struct fake *f = fa->fake;
	struct clock *c = loop_clock(f->loop);
	struct runner_result r = { .failure = fa->failure,
				   .started_ns = fa->started_ns,
				   .ended_ns = c->wall_ns(c),
				   .outputs = fa->outputs,
				   .metrics_json = fa->metrics_json,
				   .node = "fake" };

	fa->timer = NULL;
	if (f->o.taking_in_ns && fa->failure == FAILURE_NONE && !fa->exited) {
		fa->exited = true;
		f->n_running--;
		f->n_taking_in++;
		fa->timer =
			loop_add_timer(f->loop, c->mono_ns(c) + f->o.taking_in_ns, on_timer, fa);
		if (f->base.events.exited)
			f->base.events.exited(f->base.events.arg, fa->a->id);
		return;
	}
	r.exit_status = fa->failure == FAILURE_FAILED ? 1 : fa->failure == FAILURE_NONE ? 0 : -1;
	if (fa->failure != FAILURE_NONE)
		err_set(&r.err, ERR_FAILED, "fake failure: %s", failure_class_name(fa->failure));
	f->base.events.finished(f->base.events.arg, fa->a->id, &r);
	forget(f, fa);
}

static int fake_submit(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct fake *f = fake_of(r);
	struct clock *c = loop_clock(f->loop);
	void **seen = map_slot(f->seen, &a->id, sizeof(a->id), NULL);
	struct fake_attempt *fa;
	int64_t duration = NS_PER_S;

	if (*seen)
		return 0;
	*seen = f;
	fa = xcalloc(1, sizeof(*fa));
	*fa = (struct fake_attempt){
		.fake = f, .a = a, .started_ns = c->wall_ns(c), .next = f->running
	};
	fa->outputs = xcalloc(a->n_outputs + 1, sizeof(*fa->outputs));
	f->running = fa;
	f->n_submitted++;
	f->n_running++;
	if (f->o.script)
		f->o.script(f->o.arg, a, &fa->failure, &duration, fa->outputs, &fa->metrics_json);
	f->base.events.started(f->base.events.arg, a->id, fa->started_ns, 0);
	fa->timer = loop_add_timer(f->loop, c->mono_ns(c) + duration, on_timer, fa);
	return 0;
}

static int fake_adopt(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	return 0;
}

static void fake_cancel(struct runner *r, uint64_t attempt_id, bool gentle)
{
	for (struct fake_attempt *fa = fake_of(r)->running; fa; fa = fa->next) {
		struct clock *c = loop_clock(fa->fake->loop);

		if (fa->a->id != attempt_id)
			continue;
		fa->failure = FAILURE_CANCELLED;
		loop_remove(fa->fake->loop, fa->timer);
		fa->timer = loop_add_timer(fa->fake->loop, c->mono_ns(c), on_timer, fa);
		return;
	}
}

static void fake_free(struct runner *r)
{
	struct fake *f = fake_of(r);

	while (f->running) {
		loop_remove(f->loop, f->running->timer);
		forget(f, f->running);
	}
	map_free(f->seen);
	free(f);
}

static const struct runner_ops fake_ops = { .name = "fake",
					    .submit = fake_submit,
					    .adopt = fake_adopt,
					    .cancel = fake_cancel,
					    .free = fake_free };

int runner_fake_new(struct loop *l, const struct runner_fake_options *o, struct runner **ret,
		    struct err *err)
{
	struct fake *f = xcalloc(1, sizeof(*f));

	f->base.ops = &fake_ops;
	f->loop = l;
	f->o = *o;
	f->seen = map_new();
	*ret = &f->base;
	return 0;
}

size_t runner_fake_submitted(const struct runner *r)
{
	return fake_of(r)->n_submitted;
}

size_t runner_fake_running(const struct runner *r)
{
	return fake_of(r)->n_running;
}

size_t runner_fake_taking_in(const struct runner *r)
{
	return fake_of(r)->n_taking_in;
}
