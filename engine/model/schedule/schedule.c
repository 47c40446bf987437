/* engine/model/schedule/schedule.c — reads `schedules`: cron rules in a time zone, inputs that are
 * watched, events (`on`), and what to do when runs overlap, were missed, or the clock is set.
 *
 * read_schedules() fills a schedule_decl with the defaults; read_schedule() reads its keys.
 * Schedules come after params and inputs, which they name. Their params are resolved at once, apart
 * from those of the steps.
 *
 * Rules are parsed only to check them (cron.c) and are kept as text. A time zone must be a file
 * below /usr/share/zoneinfo, if that directory exists. engine/serve/schedule decides when a
 * schedule fires, and acts on it.
 */
#include <sys/stat.h>
#include "model/read.h"
#include "model/schedule/cron.h"

/* Schedules. */

#define ZONES "/usr/share/zoneinfo"

static void read_timezone(const struct doc *d, const struct yaml_node *n, const char **ret)
{
	char path[300];
	struct stat st;

	if (!doc_want_text(d, n, "`timezone`"))
		return;
	if (n->len > 200 || *n->text == '/' || strstr(n->text, "..") ||
	    strspn(n->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") !=
		    n->len) {
		doc_error(d, n, "`%.60s` is not the name of a time zone, such as Europe/Berlin",
			  n->text);
		return;
	}
	snprintf(path, sizeof(path), ZONES "/%s", n->text);
	if (strcmp(n->text, "UTC") != 0 && stat(ZONES, &st) == 0 &&
	    (stat(path, &st) < 0 || !S_ISREG(st.st_mode)))
		doc_error(d, n, "there is no time zone `%s`; names are like Europe/Berlin",
			  n->text);
	*ret = doc_text(d, n);
}

static void read_cron(const struct doc *d, const struct yaml_node *n, const char **ret)
{
	struct err err = { 0 };
	struct cron cron;
	size_t offset;

	if (!doc_want_text(d, n, "`cron`"))
		return;
	*ret = doc_text(d, n);
	if (cron_parse(*ret, &cron, &offset, &err) < 0) {
		struct yaml_node at = *n;

		if (n->style != YAML_STYLE_BLOCK)
			at.col += (int)offset + (n->style == YAML_STYLE_QUOTED);
		doc_error(d, &at, "`cron`: %s", err.msg);
	}
}

/* A literal is checked against the param's declaration now; text may use `schedule`. */
static void read_schedule_param(struct loader *l, const struct param_node *param,
				struct named_template *ret)
{
	const struct doc *d = &l->doc;
	const struct yaml_node *key = param->key, *n = param->value;
	size_t i = (size_t)(uintptr_t)map_get_str(l->names.params, param->name);
	struct err err = { 0 };
	struct value v, fit;

	*ret = (struct named_template){ param->name, doc_literal_template(d, n, "", 0),
					doc_pos(d, key) };
	if (i == 0) {
		doc_error(d, key, "the pipeline has no param `%.60s`%s", param->name,
			  param_hint(param->name, l->params.v, l->n_own_params, l->scratch));
		return;
	}
	if (n->kind == YAML_KIND_SCALAR && template_text_has_expr(n->text, n->len)) {
		ret->value = read_template(d, n);
		if (l->params.v[i - 1].type != VALUE_STRING)
			doc_error(d, n, "param `%s` is %s; an expression here gives text",
				  param->name, value_type_phrase(l->params.v[i - 1].type));
		return;
	}
	if (!read_value_as(d, n, l->params.v[i - 1].type, "a param", &v))
		return;
	if (param_check_value(&l->params.v[i - 1], &v, &fit, &err) < 0)
		doc_error(d, n, "param `%s` %s", param->name, err.msg);
	else
		ret->value = template_of_value(&fit, d->file, n->line, n->col, l->arena);
}

/* When. */

#define POLL_DEFAULT_NS      (60 * NS_PER_S)
#define RETRY_BACKOFF_MIN_NS (60 * NS_PER_S)
#define RETRY_BACKOFF_MAX_NS (3600 * NS_PER_S)
#define SCHEDULE_RETRY_MAX   100

static void read_moment(const struct doc *d, const struct yaml_node *n, const char *what,
			int64_t *ret_ns)
{
	struct err err = { 0 };

	if (doc_want_scalar(d, n, what) && text_parse_time(n->text, ret_ns, &err) < 0)
		doc_error(d, n, "%s: %s", what, err.msg);
}

/* Reads inputs of the pipeline, each of which may stand once. */
static void read_on_change(struct loader *l, const struct yaml_node *n, struct schedule_decl *s)
{
	const struct doc *d = &l->doc;
	const struct yaml_node **names = NULL;
	size_t n_names = read_name_list(d, n, "`on_change`", &names);
	uint32_t *inputs = arena_alloc(l->arena, (n_names + 1) * sizeof(*inputs));

	for (size_t i = 0; i < n_names; i++) {
		size_t at = (size_t)(uintptr_t)map_get_str(l->names.inputs, names[i]->text);

		if (at == 0)
			doc_error(d, names[i], "the pipeline has no input `%.60s`%s",
				  names[i]->text,
				  doc_suggest_key(l, names[i]->text, l->names.inputs));
		else if (l->inputs.v[at - 1].origin != INPUT_PATH)
			doc_error(d, names[i],
				  "`on_change` watches paths in the project; input `%.60s` is none",
				  names[i]->text);
		else
			inputs[s->n_on_change++] = (uint32_t)(at - 1);
	}
	s->on_change = inputs;
}

static void read_schedule_retry(const struct doc *d, const struct yaml_node *n,
				struct schedule_decl *s)
{
	static const char *const keys[] = { "max", "backoff" };
	const struct yaml_node *max = n, *backoff = NULL;
	int64_t v = 0;

	if (n->kind == YAML_KIND_MAP) {
		doc_check_keys(d, n, keys, ARRAY_LEN(keys));
		max = yaml_get(n, "max");
		backoff = yaml_get(n, "backoff");
		if (!max)
			doc_error(d, n, "`retry` has no `max`");
	}
	if (max && read_count(d, max, "`max`", 0, SCHEDULE_RETRY_MAX, &v))
		s->retry_max = (uint32_t)v;
	if (backoff)
		read_backoff(d, backoff, &s->retry_min_ns, &s->retry_max_ns);
}

/* The shortest time between two of the rule's next times; INT64_MAX: there are none. A clock change
 * at night shifts one of them a little, which is no reason for a warning. */
static int64_t least_gap_s(const char *rule)
{
	int64_t last = 0, next, least = INT64_MAX;
	struct cron cron;
	size_t offset;

	if (cron_parse(rule, &cron, &offset, NULL) < 0)
		return INT64_MAX; /* already reported */
	if (cron.every_s)
		return cron.every_s;
	for (int i = 0; i < 400 && cron_next(&cron, last + 1, INT64_MAX / 2, &next) == 0; i++) {
		if (i)
			least = MIN(least, next - last);
		last = next;
	}
	return least;
}

static void read_jitter(const struct doc *d, const struct yaml_node *v, struct schedule_decl *s)
{
	struct pos at = doc_pos(d, v);
	int64_t gap_s;

	if (!read_duration(d, v, "`jitter`", &s->jitter_ns) || !s->cron)
		return;
	gap_s = least_gap_s(s->cron);
	if (s->jitter_ns / NS_PER_S > gap_s)
		diag_warn_at(
			d->l->diags, &at,
			"`jitter` is longer than the %llds between two firings of `%s`: it ends "
			"where the next one begins",
			(long long)gap_s, s->cron);
}

/* Events. */

static void read_after(const struct doc *d, const struct yaml_node *n, const struct yaml_node *file,
		       struct event_decl *on)
{
	static const char *const states[] = { "succeeded", "failed", "any" };
	const struct yaml_node *v = yaml_get(n, "state");

	if (doc_want_text(d, file, "`pipeline`")) {
		if (str_has_suffix(file->text, ".yaml") || str_has_suffix(file->text, ".yml"))
			on->pipeline =
				read_path(d, file, file->text, d->dir, "pipeline", false, NULL);
		else
			doc_error(d, file,
				  "`pipeline` must be a pipeline's file, such as prepare.yaml, not "
				  "`%.60s`",
				  file->text);
	}
	on->state = "succeeded";
	if (v)
		read_choice(d, v, "`state`", states, ARRAY_LEN(states), &on->state);
}

static void read_hook(struct loader *l, const struct yaml_node *n, const struct yaml_node *name,
		      struct event_decl *on)
{
	const struct doc *d = &l->doc;
	const struct yaml_node *v = yaml_get(n, "secret");

	if (doc_want_text(d, name, "`webhook`") && doc_check_name(d, name, NAME_STEP, "webhook"))
		on->webhook = doc_text(d, name);
	for (size_t i = 0; on->webhook && i < l->schedules.n; i++)
		if (str_eq(l->schedules.v[i].on.webhook, on->webhook))
			doc_error(d, name, "schedule `%s` has webhook `%s` already",
				  l->schedules.v[i].name, on->webhook);
	if (!v)
		doc_error(
			d, n,
			"`webhook` has no `secret`: without a signature anybody could start runs");
	else if (doc_want_text(d, v, "`secret`") && doc_check_name(d, v, NAME_ENV, "secret"))
		on->secret = doc_text(d, v);
}

/* An event has no calendar, and each gets its run: unlike times, nobody can compute which were
 * missed. */
static void read_on(struct loader *l, const struct yaml_node *schedule, const struct yaml_node *n,
		    struct schedule_decl *s)
{
	static const char *const after_keys[] = { "pipeline", "state" };
	static const char *const hook_keys[] = { "webhook", "secret" };
	static const char *const senseless[] = { "cron", "timezone", "on_change",
						 "poll", "jitter",   "start",
						 "end",  "dst",      "alert_after" };
	const struct doc *d = &l->doc;
	const struct yaml_node *file, *hook, *v;

	s->overlap = "queue";
	s->catch_up = "all";
	s->on.pos = doc_pos(d, n);
	for (size_t i = 0; i < ARRAY_LEN(senseless); i++)
		if ((v = yaml_get(schedule, senseless[i])))
			doc_error(d, v, "`%s` has no meaning with `on`, which fires by itself",
				  senseless[i]);
	if (!doc_want_map(d, n, "`on`"))
		return;
	file = yaml_get(n, "pipeline");
	hook = yaml_get(n, "webhook");
	if (!file == !hook) {
		doc_error(d, n, "`on` has one of `pipeline` and `webhook`");
		return;
	}
	if (file) {
		doc_check_keys(d, n, after_keys, ARRAY_LEN(after_keys));
		read_after(d, n, file, &s->on);
		return;
	}
	doc_check_keys(d, n, hook_keys, ARRAY_LEN(hook_keys));
	read_hook(l, n, hook, &s->on);
	if ((v = yaml_get(schedule, "catch_up")) || (v = yaml_get(schedule, "catch_up_window")))
		doc_error(d, v,
			  "`catch_up` has no meaning with `webhook`: who sends it sends it again "
			  "when there was no answer");
}

static void read_when(struct loader *l, const struct yaml_node *key, const struct yaml_node *n,
		      struct schedule_decl *s)
{
	const struct doc *d = &l->doc;
	const struct yaml_node *v;

	if ((v = yaml_get(n, "on"))) {
		read_on(l, n, v, s);
		return;
	}
	if ((v = yaml_get(n, "cron")))
		read_cron(d, v, &s->cron);
	else if (!yaml_get(n, "on_change"))
		doc_error(d, key, "schedule `%s` has none of `cron`, `on_change` and `on`",
			  s->name);
	if ((v = yaml_get(n, "timezone")))
		read_timezone(d, v, &s->timezone);
	if ((v = yaml_get(n, "on_change")))
		read_on_change(l, v, s);
	if ((v = yaml_get(n, "poll")) && read_duration(d, v, "`poll`", &s->poll_ns)) {
		if (s->poll_ns < NS_PER_S)
			doc_error(d, v, "`poll` must be at least 1s");
		else if (!yaml_get(n, "on_change"))
			doc_error(d, v, "`poll` has no meaning without `on_change`");
	}
	if ((v = yaml_get(n, "jitter")))
		read_jitter(d, v, s);
	if ((v = yaml_get(n, "start")))
		read_moment(d, v, "`start`", &s->start_ns);
	if ((v = yaml_get(n, "end")))
		read_moment(d, v, "`end`", &s->end_ns);
	if (s->start_ns && s->end_ns && s->end_ns <= s->start_ns)
		doc_error(d, v, "`end` isn't later than `start`: the schedule would never fire");
}

static void read_what_if(const struct doc *d, const struct yaml_node *n, struct schedule_decl *s)
{
	static const char *const overlaps[] = { "allow", "skip", "queue", "replace" };
	static const char *const catch_ups[] = { "none", "latest", "all" };
	static const char *const dsts[] = { "once", "skip", "twice" };
	const struct yaml_node *v;

	if ((v = yaml_get(n, "overlap")))
		read_choice(d, v, "`overlap`", overlaps, ARRAY_LEN(overlaps), &s->overlap);
	if ((v = yaml_get(n, "catch_up")))
		read_choice(d, v, "`catch_up`", catch_ups, ARRAY_LEN(catch_ups), &s->catch_up);
	if ((v = yaml_get(n, "dst")))
		read_choice(d, v, "`dst`", dsts, ARRAY_LEN(dsts), &s->dst);
	if ((v = yaml_get(n, "catch_up_window")) &&
	    read_duration(d, v, "`catch_up_window`", &s->catch_up_window_ns) &&
	    strcmp(s->catch_up, "none") == 0)
		doc_error(d, v,
			  "`catch_up_window` has no meaning without `catch_up: latest` or `all`");
	if ((v = yaml_get(n, "retry")))
		read_schedule_retry(d, v, s);
	if ((v = yaml_get(n, "alert_after")) &&
	    read_duration(d, v, "`alert_after`", &s->alert_after_ns) &&
	    s->alert_after_ns < NS_PER_S)
		doc_error(d, v, "`alert_after` must be at least 1s");
}

static void read_schedule(struct loader *l, const struct yaml_node *key, const struct yaml_node *n,
			  struct schedule_decl *s)
{
	static const char *const keys[] = { "cron",    "timezone",    "on_change",       "on",
					    "poll",    "jitter",      "start",           "end",
					    "overlap", "catch_up",    "catch_up_window", "dst",
					    "retry",   "alert_after", "notify",          "params" };
	const struct doc *d = &l->doc;
	const struct yaml_node *v;
	struct named_template *params;
	struct param_node *nodes;

	if (!doc_want_map(d, n, "a schedule"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	read_when(l, key, n, s);
	read_what_if(d, n, s);
	if ((v = yaml_get(n, "notify")))
		read_notify(l, v, true, &s->notify, &s->n_notify);
	if ((v = yaml_get(n, "params")) && doc_want_map(d, v, "`params` of a schedule")) {
		flatten_params(d, v, &nodes, &s->n_params);
		params = arena_alloc(l->arena, s->n_params * sizeof(*params));
		for (size_t i = 0; i < s->n_params; i++)
			read_schedule_param(l, &nodes[i], &params[i]);
		s->params = params;
		resolve_schedule_params(l, s);
	}
	/* Every run would fail without a value for each param that has no default. */
	for (size_t i = 0; i < l->n_own_params; i++) {
		bool given = l->params.v[i].has_default;

		for (size_t k = 0; k < s->n_params && !given; k++)
			given = strcmp(s->params[k].name, l->params.v[i].name) == 0;
		if (!given)
			doc_error(d, key,
				  "schedule `%s` must give param `%s`, which has no default",
				  s->name, l->params.v[i].name);
	}
}

void read_schedules(struct loader *l, const struct yaml_node *n)
{
	if (!n || yaml_is_null(n) || !doc_want_map(&l->doc, n, "`schedules`"))
		return;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		struct schedule_decl s = { .name = doc_text(&l->doc, key),
					   .timezone = "UTC",
					   .overlap = "skip",
					   .catch_up = "none",
					   .dst = "once",
					   .poll_ns = POLL_DEFAULT_NS,
					   .retry_min_ns = RETRY_BACKOFF_MIN_NS,
					   .retry_max_ns = RETRY_BACKOFF_MAX_NS,
					   .pos = doc_pos(&l->doc, key),
					   .on.pos = doc_pos(&l->doc, key) };

		doc_check_name(&l->doc, key, NAME_STEP, "schedule");
		read_schedule(l, key, n->pairs[i].value, &s);
		VEC_PUSH(&l->schedules, s);
	}
}
