/* engine/cli/run/notices.c — tells people of a run that this process executes.
 *
 * begin() decides who is told, and opens the sender only when somebody is. asks() and ended() write
 * rows in the run's own transaction; the sender, which `cairn serve` uses, too, takes them from
 * there. A schedule's end is told by the server that fired it, and only its questions from here.
 * Trials of a sweep and reproductions tell nobody.
 *
 * Invariants: nothing here changes how the run ends. Rows that aren't sent in time stay.
 * Threads: the loop's; the sender has workers of its own.
 */
#include "cli/run/notices.h"
#include "base/text/text.h"
#include "record/facts.h"
#include "serve/event.h"
#include "serve/notify/notify.h"

struct notices {
	struct cli *cli;
	struct session *s;
	const struct notify_decl *decls; /* of the run's pipeline, or of its schedule */
	size_t n_decls;
	struct project *project; /* NULL: nobody is told */
	struct notifier *notifier;
	struct run_notices ops;
};

static int begin(void *arg, const struct pipeline *p, const struct run_row *run, struct err *err)
{
	struct notices *n = arg;

	n->decls = p->notify;
	n->n_decls = p->n_notify;
	for (size_t i = 0; run->schedule && i < p->n_schedules; i++)
		if (str_eq(p->schedules[i].name, run->schedule)) {
			n->decls = p->schedules[i].notify;
			n->n_decls = p->schedules[i].n_notify;
		}
	if (n->n_decls == 0)
		return 0;
	event_init(false, EVENT_ERROR);
	n->project = project_borrow(n->s->config, n->s->db);
	if (notifier_new(n->s->loop, &n->notifier, err) < 0)
		return -1;
	notifier_add_project(n->notifier, n->project);
	return 0;
}

static struct notice notice_of(struct notices *n, const struct run_row *run, enum notify_event e)
{
	char hex[DIGEST_HEX_MAX];

	return (struct notice){ .event = e,
				.project = n->project,
				.pipeline = run->pipeline,
				.path = run->path,
				.schedule = run->schedule,
				.nominal_ns = run->nominal_ns,
				.run = run->id,
				.hash = run->has_hash ? arena_strdup(n->cli->arena,
								     digest_hex(&run->hash, hex))
						      : NULL,
				.state = run_state_name(run->state) };
}

static int tell(struct notices *n, const struct notice *what, struct err *err)
{
	return notify(n->notifier, n->decls, n->n_decls, what, err);
}

static int asks(void *arg, const struct run_row *run, const struct attempt_row *a,
		const char *waiting, struct err *err)
{
	struct notices *n = arg;
	struct notice what;

	if (!n->notifier)
		return 0;
	what = notice_of(n, run, NOTIFY_APPROVAL);
	what.message = waiting;
	return tell(n, &what, err);
}

/* A recovery is a success, too, for those who only want to hear of successes. */
static int notify_success(struct notices *n, struct notice *what, bool recovered, struct err *err)
{
	for (size_t i = 0; i < n->n_decls; i++) {
		what->event = recovered && n->decls[i].on & NOTIFY_RECOVERY ? NOTIFY_RECOVERY
									    : NOTIFY_SUCCESS;
		if (notify(n->notifier, &n->decls[i], 1, what, err) < 0)
			return -1;
	}
	return 0;
}

static int ended(void *arg, const struct run_row *run, struct err *err)
{
	struct notices *n = arg;
	struct run_row last;
	struct notice what;
	int found;

	if (!n->notifier || run->schedule ||
	    (run->state != RUN_SUCCEEDED && run->state != RUN_FAILED))
		return 0;
	what = notice_of(n, run, NOTIFY_FAILURE);
	what.message = arena_printf(n->cli->arena, "%s: %s", run->pipeline,
				    run->message ? run->message : run_state_name(run->state));
	if (run->state == RUN_FAILED)
		return tell(n, &what, err);
	found = record_run_before(n->s->db, run, false, n->cli->arena, &last, err);
	if (found < 0 || notify_success(n, &what, found && last.state == RUN_FAILED, err) < 0)
		return -1;
	found = record_run_before(n->s->db, run, true, n->cli->arena, &last, err);
	if (found < 0)
		return -1;
	what.event = NOTIFY_METRIC;
	what.before = found ? last.id : NULL;
	return tell(n, &what, err);
}

static void committed(void *arg)
{
	struct notices *n = arg;

	if (n->notifier)
		notifier_look(n->notifier);
}

struct notices *notices_new(struct cli *cli, struct session *s)
{
	struct notices *n = xcalloc(1, sizeof(*n));

	n->cli = cli;
	n->s = s;
	n->ops = (struct run_notices){
		.begin = begin, .asks = asks, .ended = ended, .committed = committed, .arg = n
	};
	return n;
}

const struct run_notices *notices_ops(struct notices *n)
{
	return &n->ops;
}

void notices_finish(struct notices *n)
{
	struct clock *c = clock_system();
	const int64_t until_ns = c->mono_ns(c) + NOTICES_WAIT_NS;
	size_t left;
	int64_t now;

	if (!n)
		return;
	if (n->notifier) {
		notifier_look(n->notifier);
		while (notifier_pending(n->notifier) && (now = c->mono_ns(c)) < until_ns &&
		       loop_turn(n->s->loop, until_ns - now, NULL) > 0)
			;
		left = notifier_pending(n->notifier);
		if (left)
			cli_warn(n->cli,
				 "%zu notice%s couldn't be sent yet: the next run or `cairn serve` "
				 "tries again; `cairn schedule notices` says why",
				 left, left == 1 ? "" : "s");
	}
	notifier_free(n->notifier);
	project_free(n->project);
	free(n);
}
