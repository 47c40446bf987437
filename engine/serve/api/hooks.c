/* engine/serve/api/hooks.c — deliveries to webhooks of schedules (`on: {webhook: NAME}`).
 *
 * A delivery is a POST that is signed as Standard Webhooks 1.0.0 says
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). The
 * signature covers id, time and body, so that nobody can send a seen delivery again under another
 * id. The time may differ by HOOK_TOLERANCE_S; the id is the event, which has one firing for ever.
 * So the window for a repetition is bounded by the time, and a sender's own repetition, which has a
 * new time, gets the first answer again.
 *
 * find_on_loop() collects the schedules with this webhook and their secrets; the pool's thread
 * checks signatures; deliver_on_loop() makes the firing. Its row is on disk before the answer. The
 * answer waits WAIT_NS for the run's id. A firing that waits for its turn has none yet.
 *
 * Invariants: without a right signature, the answer is the same whether there is such a webhook or
 * not. The body is only signed bytes: nothing reads it. Comparison takes the same time wherever the
 * signatures differ.
 *
 * Threads: the pool's; functions named *_on_loop run on the loop's. Not here: what fires when
 * (schedule/), the body's size (web/).
 */
#include <openssl/crypto.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/text/text.h"
#include "record/facts.h"
#include "run/task/secret.h"
#include "serve/event.h"
#include "serve/internal.h"

#define HOOKS_MAX     16 /* schedules with one webhook: each needs a signature to be checked */
#define ID_MAX        128
#define SIGNATURE_MAX 4096
#define KEY_PREFIX    "whsec_"
#define WAIT_NS       (5 * NS_PER_S)
#define LOOK_NS       (50 * NS_PER_MS)

/* Signatures. */

static bool is_id(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= ID_MAX &&
	       strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == n;
}

static void sign(const struct hook_delivery *d, const struct str *key, struct str *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct digest mac;

	str_addf(&text, "%s.%s.", d->id, d->timestamp);
	str_addn(&text, d->body, d->len);
	digest_hmac(key->s, key->len, text.s, text.len, &mac);
	base64_add(ret, mac.b, DIGEST_BYTES);
}

bool hook_verify(const struct hook_delivery *d, const char *secret, size_t secret_len,
		 int64_t wall_ns)
{
	_cleanup_(str_wipe) struct str key = { 0 };
	_cleanup_(str_deinit) struct str right = { 0 };
	int64_t at_s, now_s = wall_ns / NS_PER_S;
	bool same = false;

	if (!d->id || !d->timestamp || !d->signature || !is_id(d->id) ||
	    strlen(d->signature) > SIGNATURE_MAX || !text_parse_int(d->timestamp, &at_s) ||
	    at_s < now_s - HOOK_TOLERANCE_S || at_s > now_s + HOOK_TOLERANCE_S || !secret_len)
		return false;
	str_add(&key, "");
	if (!str_has_prefix(secret, KEY_PREFIX))
		str_addn(&key, secret, secret_len);
	else if (base64_decode(&key, secret + strlen(KEY_PREFIX), secret_len - strlen(KEY_PREFIX),
			       NULL) < 0 ||
		 !key.len)
		return false;
	sign(d, &key, &right);
	for (const char *p = d->signature; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		if (n == right.len + 3 && memcmp(p, "v1,", 3) == 0)
			same |= CRYPTO_memcmp(p + 3, right.s, right.len) == 0;
		p += n;
	}
	return same;
}

/* Which schedule. */

struct hook {
	struct project *project;
	const char *path, *schedule;
	struct str secret;
	struct err problem; /* why there is no secret */
};

struct delivery {
	struct api *a;
	const char *name, *id;
	struct hook hooks[HOOKS_MAX];
	size_t n;
	const struct hook *to;
	struct firing firing;
	int result;
	struct err err;
};

static void add_hook(void *arg, const struct schedule_facts *f)
{
	struct delivery *d = arg;
	struct project *p = scheduler_project_owner(f->project);
	const char *want = web_param(d->a->x, "project");
	struct hook *h = &d->hooks[d->n];

	if (!str_eq(f->decl->on.webhook, d->name) || (want && !str_eq(want, p->name)) ||
	    d->n == HOOKS_MAX)
		return;
	*h = (struct hook){ .project = p,
			    .path = arena_strdup(d->a->arena, f->path),
			    .schedule = arena_strdup(d->a->arena, f->decl->name) };
	str_add(&h->secret, "");
	secret_get(p->config, f->decl->on.secret, &h->secret, &h->problem);
	d->n++;
}

static void find_on_loop(void *arg)
{
	struct delivery *d = arg;

	scheduler_each(d->a->d->scheduler, add_hook, d);
}

static void deliver_on_loop(void *arg)
{
	struct delivery *d = arg;

	d->result =
		atomic_load(&d->a->d->phase) != DAEMON_SERVING
			? err_set(&d->err, ERR_BUSY, "the server is stopping")
			: scheduler_deliver(d->to->project->scheduled, d->to->path, d->to->schedule,
					    d->id, d->a->arena, &d->firing, &d->err);
}

/* False: the client got a problem as answer. */
static bool choose(struct delivery *d)
{
	struct web_exchange *x = d->a->x;
	struct hook_delivery signed_by = { .id = web_header(x, "webhook-id"),
					   .timestamp = web_header(x, "webhook-timestamp"),
					   .signature = web_header(x, "webhook-signature"),
					   .body = x->body.s ? x->body.s : "",
					   .len = x->body.len };
	size_t matches = 0, unready = 0;

	for (size_t i = 0; i < d->n; i++) {
		struct hook *h = &d->hooks[i];

		if (h->problem.code) {
			unready++;
			event_err("webhook-without-secret", h->schedule, &h->problem);
		} else if (hook_verify(&signed_by, h->secret.s, h->secret.len, clock_wall_ns())) {
			matches++;
			d->to = h;
		}
	}
	if (matches > 1)
		web_problem(x, 409,
			    "several schedules have webhook `%.80s` and this secret: give each a "
			    "name of its own",
			    d->name);
	else if (matches == 0 && unready)
		web_problem(x, 503, "the server has no secret for this webhook yet");
	else if (matches == 0)
		web_problem(x, 401,
			    "no webhook of this name has this signature: webhook-id, "
			    "webhook-timestamp (at most %d s off) and webhook-signature are signed "
			    "as Standard Webhooks 1.0.0 says",
			    HOOK_TOLERANCE_S);
	d->id = matches == 1 ? arena_strdup(d->a->arena, signed_by.id) : NULL;
	return matches == 1;
}

/* The answer. */

/* Waits for the run's id while one is about to begin. */
static void wait_for_run(struct delivery *d)
{
	int64_t until = clock_mono_ns() + WAIT_NS;
	struct firing *f = &d->firing;
	struct db *db = NULL;

	if (f->run || project_reader(d->to->project, &db, NULL) < 0)
		return;
	while (!f->run && f->state < FIRING_SUCCEEDED && clock_mono_ns() < until &&
	       atomic_load(&d->a->d->phase) == DAEMON_SERVING) {
		clock_sleep(LOOK_NS);
		if (record_firing(db, f->path, f->schedule, f->nominal_ns, d->a->arena, f, NULL) <=
		    0)
			break;
		if (f->state == FIRING_WAITING)
			break; /* its turn may come in hours */
	}
	project_reader_return(d->to->project, db);
}

void api_hook(struct api *a)
{
	struct delivery *d = arena_alloc(a->arena, sizeof(*d));

	*d = (struct delivery){ .a = a, .name = a->x->captures[0] };
	if (api_call(a, find_on_loop, d) && choose(d) && api_call(a, deliver_on_loop, d)) {
		struct firing *f = &d->firing;

		if (d->result < 0) {
			web_problem_err(a->x, &d->err);
		} else {
			wait_for_run(d);
			web_answer_json(
				a->x, 202,
				json_pack("{s:o, s:o, s:o, s:s, s:o, s:o}", "schedule",
					  facts_text(f->schedule), "path", facts_text(f->path),
					  "nominal", facts_time(f->nominal_ns), "state",
					  firing_state_name(f->state), "run", facts_text(f->run),
					  "message", facts_text(f->message)));
		}
	}
	for (size_t i = 0; i < d->n; i++)
		str_wipe(&d->hooks[i].secret);
}
