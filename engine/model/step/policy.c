/* engine/model/step/policy.c — reads how a step is executed: retries, gates, tolerances, timeout,
 * concurrency, distribution.
 *
 * One function per key, called by the table of step.c. Each replaces what an earlier layer (the
 * defaults, the step file) gave; a `retry` starts again from retry_defaults(). retry_finish() runs
 * after all keys: how often an unschedulable step is tried depends on the number of its nodes.
 *
 * None of this is part of the key except `distributed` (engine/plan/builtin.c).
 */
#include <math.h>
#include "model/read.h"

/* Without a `retry`, failures that aren't the step's fault are still tried again. */
#define RETRY_LOST      3
#define RETRY_PREEMPTED 20
#define RETRY_STORE     2
/* Gangs that block each other release what they hold. One of a few tries at different times finds
 * room. */
#define RETRY_GANG           3
#define RETRY_UNSTATED       UINT32_MAX
#define RETRY_BACKOFF_MIN_NS (10 * NS_PER_S)
#define RETRY_BACKOFF_MAX_NS (300 * NS_PER_S)
#define NODES_MAX            4096
#define RETRY_MEMORY_MAX     16 /* a larger factor is a typing error */

void retry_defaults(struct retry_policy *p)
{
	*p = (struct retry_policy){ .backoff_min_ns = RETRY_BACKOFF_MIN_NS,
				    .backoff_max_ns = RETRY_BACKOFF_MAX_NS,
				    .oom_memory_factor = 1 };
	p->budget[FAILURE_LOST] = RETRY_LOST;
	p->budget[FAILURE_PREEMPTED] = RETRY_PREEMPTED;
	p->budget[FAILURE_STORE] = RETRY_STORE;
	p->budget[FAILURE_UNSCHEDULABLE] = RETRY_UNSTATED;
}

void retry_finish(struct step_parts *p)
{
	uint32_t *n = &p->policy.retry.budget[FAILURE_UNSCHEDULABLE];

	if (*n == RETRY_UNSTATED)
		*n = p->machine.distributed.nodes > 1 ? RETRY_GANG : 0;
}

/* A number, or an expression; the classes of failure that the step states override it. */
static void read_max(struct reader *r, const struct yaml_node *n)
{
	struct retry_policy *p = &r->b->parts->policy.retry;

	p->budget[FAILURE_FAILED] = p->budget[FAILURE_TIMEOUT] = RETRY_AS_MAX;
	setting_read(r, SETTING_RETRY, n, NULL);
}

/* oom: 1, or oom: {max: 1, memory: x1.5}; the other classes have no `memory`. */
static void read_budget(const struct doc *d, const struct yaml_node *n, enum failure_class c,
			struct retry_policy *p)
{
	static const char *const keys[] = { "max", "memory" };
	const struct yaml_node *max = n, *memory = NULL;
	char what[40];
	double factor;
	int64_t v;

	if (n->kind == YAML_KIND_MAP) {
		doc_check_keys(d, n, keys, c == FAILURE_OOM ? 2 : 1);
		max = yaml_get(n, "max");
		memory = c == FAILURE_OOM ? yaml_get(n, "memory") : NULL;
		if (!max)
			doc_error(d, n, "`%s` has no `max`", failure_class_name(c));
	}
	snprintf(what, sizeof(what), "`%s`", failure_class_name(c));
	if (max && read_count(d, max, what, 0, RETRY_MAX, &v))
		p->budget[c] = (uint32_t)v;
	if (!memory)
		return;
	if (memory->kind == YAML_KIND_SCALAR && memory->text[0] == 'x' &&
	    text_parse_double(memory->text + 1, &factor) && factor >= 1 &&
	    factor <= RETRY_MEMORY_MAX)
		p->oom_memory_factor = factor;
	else
		doc_error(d, memory, "`memory` must be a factor from x1 to x%d, such as x1.5",
			  RETRY_MEMORY_MAX);
}

static void unknown_retry_key(struct reader *r, const struct yaml_node *key)
{
	const char *names[FAILURE_CLASSES + 2] = { "max", "backoff" };
	size_t n = 2;

	for (int c = FAILURE_FAILED; c < FAILURE_CANCELLED; c++)
		names[n++] = failure_class_name(c);
	doc_error(r->d, key,
		  "`retry` has no key `%.60s`%s: it has max, backoff and classes of failure",
		  key->text, loader_suggest_key(r->l, key->text, names, n));
}

void step_read_retry(struct reader *r, const struct yaml_node *n)
{
	struct retry_policy *p = &r->b->parts->policy.retry;
	const struct yaml_node *max;
	int64_t v;

	retry_defaults(p);
	r->b->parts->settings[SETTING_RETRY] = NULL;
	if (n->kind == YAML_KIND_SCALAR && !yaml_is_null(n)) {
		if (!strstr(n->text, "${{") && !yaml_as_int(n, &v))
			doc_error(r->d, n,
				  "`retry` must be a number of attempts more, such as 3, or a "
				  "mapping with `max`");
		else
			read_max(r, n);
		return;
	}
	if (!doc_want_map(r->d, n, "`retry`"))
		return;
	max = yaml_get(n, "max");
	if (max)
		read_max(r, max); /* before the classes, which override it */
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;
		enum failure_class c = failure_class_parse(key->text);

		if (strcmp(key->text, "max") == 0)
			continue;
		if (strcmp(key->text, "backoff") == 0) {
			read_backoff(r->d, value, &p->backoff_min_ns, &p->backoff_max_ns);
		} else if (c == FAILURE_NONE || c >= FAILURE_CANCELLED) {
			unknown_retry_key(r, key);
		} else {
			read_budget(r->d, value, c, p);
		}
	}
}

/* Gate. */

void step_read_gate(struct reader *r, const struct yaml_node *n)
{
	struct gate_rule *gates;
	const char *text;
	size_t op;

	if (!doc_want_map(r->d, n, "`gate`"))
		return;
	gates = arena_alloc(r->l->arena, n->len * sizeof(*gates));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;

		gates[i] = (struct gate_rule){ .metric = doc_text(r->d, key),
					       .pos = doc_pos(r->d, key) };
		if (key->len == 0)
			doc_error(r->d, key, "`gate` names no metric");
		text = value->kind == YAML_KIND_SCALAR ? value->text : "";
		op = compare_parse(text, &gates[i].op);
		text += op + strspn(text + op, " ");
		if (!op || !text_parse_double(text, &gates[i].bound) || !isfinite(gates[i].bound))
			doc_error(r->d, value,
				  "a gate is a comparison with a number, such as %s: \">= 0.85\"",
				  gates[i].metric);
		else
			gates[i].text = doc_text(r->d, value);
	}
	r->b->parts->measured.gates = gates;
	r->b->parts->measured.n_gates = n->len;
}

/* Tolerance. */

/* 0.001 is a distance; 1% is a part of the recorded value. */
static bool parse_tolerance(const char *text, struct tolerance_rule *t)
{
	_cleanup_(freep) char *number = xstrdup(text);
	size_t n = strlen(number);

	t->relative = n && number[n - 1] == '%';
	if (t->relative)
		number[n - 1] = '\0';
	if (!text_parse_double(number, &t->bound) || !isfinite(t->bound) || t->bound < 0)
		return false;
	if (t->relative)
		t->bound /= 100;
	return true;
}

void step_read_tolerance(struct reader *r, const struct yaml_node *n)
{
	struct tolerance_rule *rules;

	if (!doc_want_map(r->d, n, "`tolerance`"))
		return;
	rules = arena_alloc(r->l->arena, n->len * sizeof(*rules));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;

		rules[i] = (struct tolerance_rule){ .metric = doc_text(r->d, key),
						    .pos = doc_pos(r->d, key) };
		if (key->len == 0)
			doc_error(r->d, key, "`tolerance` names no metric");
		if (value->kind != YAML_KIND_SCALAR || !parse_tolerance(value->text, &rules[i]))
			doc_error(r->d, value,
				  "a tolerance is a distance or a part of the recorded value, such "
				  "as %s: 0.001 or 1%%",
				  rules[i].metric);
	}
	r->b->parts->measured.tolerances = rules;
	r->b->parts->measured.n_tolerances = n->len;
}

/* Limits. */

void step_read_timeout(struct reader *r, const struct yaml_node *n)
{
	setting_read(r, SETTING_TIMEOUT, n, NULL);
}

void step_read_concurrency(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "group", "max" };
	const struct yaml_node *group = n, *max = NULL;

	r->b->parts->policy.concurrency.max = 1;
	r->b->parts->settings[SETTING_PLACES] = NULL;
	if (n->kind == YAML_KIND_MAP) {
		doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
		group = yaml_get(n, "group");
		max = yaml_get(n, "max");
	}
	if (!group)
		doc_error(r->d, n, "`concurrency` has no `group`");
	else if (doc_want_text(r->d, group, "the group of `concurrency`"))
		r->b->parts->policy.concurrency.group = read_template(r->d, group);
	if (max)
		setting_read(r, SETTING_PLACES, max, NULL);
}

/* nodes: {min: 2, max: 8}. */
static void read_elastic(struct reader *r, const struct yaml_node *n, struct distributed_decl *ret)
{
	static const char *const keys[] = { "min", "max" };
	const struct yaml_node *min = yaml_get(n, "min"), *max = yaml_get(n, "max");
	int64_t low, high;
	bool ok;

	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	if (!min || !max) {
		doc_error(r->d, n, "`nodes` has no `%s`: write {min: 2, max: 8}, or a number",
			  min ? "max" : "min");
		return;
	}
	/* Both are read, so that both are reported. */
	ok = read_count(r->d, min, "`min`", 1, NODES_MAX, &low);
	if (!read_count(r->d, max, "`max`", 1, NODES_MAX, &high) || !ok)
		return;
	if (low > high)
		doc_error(r->d, min, "`min` is %lld, more than `max`, which is %lld",
			  (long long)low, (long long)high);
	else if (ret->framework && strcmp(ret->framework, "torch") != 0)
		doc_error(r->d, n,
			  "`nodes` must be a number for %s: only torch goes on when a node leaves "
			  "or comes",
			  ret->framework);
	else
		*ret = (struct distributed_decl){ .framework = ret->framework,
						  .nodes = (uint32_t)high,
						  .min_nodes = (uint32_t)low,
						  .procs_per_node = 1 };
}

void step_read_distributed(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "framework", "nodes", "procs_per_node", "servers" };
	static const char *const frameworks[] = { "torch", "tensorflow", "jax",
						  "mpi",   "horovod",    "ps" };
	struct distributed_decl dist = { .nodes = 1, .procs_per_node = 1 };
	const struct yaml_node *framework, *nodes, *procs, *servers;
	int64_t v;

	if (!doc_want_map(r->d, n, "`distributed`"))
		return;
	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	framework = yaml_get(n, "framework");
	nodes = yaml_get(n, "nodes");
	procs = yaml_get(n, "procs_per_node");
	servers = yaml_get(n, "servers");
	if (!framework)
		doc_error(r->d, n, "`distributed` has no `framework`");
	else
		read_choice(r->d, framework, "`framework`", frameworks, ARRAY_LEN(frameworks),
			    &dist.framework);
	if (nodes && nodes->kind == YAML_KIND_MAP)
		read_elastic(r, nodes, &dist);
	else if (nodes && read_count(r->d, nodes, "`nodes`", 1, NODES_MAX, &v))
		dist.nodes = (uint32_t)v;
	if (procs && read_count(r->d, procs, "`procs_per_node`", 1, 128, &v))
		dist.procs_per_node = (uint32_t)v;
	if (dist.framework && strcmp(dist.framework, "ps") == 0)
		dist.servers = 1;
	if (servers && dist.framework && strcmp(dist.framework, "ps") != 0 &&
	    strcmp(dist.framework, "tensorflow") != 0)
		doc_error(r->d, servers,
			  "`servers` has no meaning for %s: parameter servers belong to ps and "
			  "tensorflow",
			  dist.framework);
	else if (servers && read_count(r->d, servers, "`servers`", 0, 1024, &v))
		dist.servers = (uint32_t)v;
	r->b->parts->machine.distributed = dist;
}
