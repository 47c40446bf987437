/* engine/model/schedule/notify.c — reads `notify` of a schedule or a pipeline: which events cause a
 * notice, and where it is sent.
 *
 * read_notify() takes one notification or a list. Each has exactly one of `command`, `webhook` and
 * `email`. `when` is an event or a rule over a metric, or a list of these; without it, the notice
 * is for failures, recoveries, missed runs and questions to people. Only the form is checked here;
 * engine/serve/notify sends notices and reads secrets.
 */
#include <math.h>
#include "model/read.h"

#define TELL_MAX 32 /* notifications of one schedule; receivers of one mail */

/* Reads a URL of one of two schemes, with a host. */
static void read_url(const struct doc *d, const struct yaml_node *n, const char *what,
		     const char *scheme, const char *safe_scheme, const char **ret)
{
	const char *rest;

	if (!doc_want_text(d, n, what))
		return;
	rest = str_has_prefix(n->text, scheme)        ? n->text + strlen(scheme)
	       : str_has_prefix(n->text, safe_scheme) ? n->text + strlen(safe_scheme)
						      : "";
	if (!*rest || *rest == '/' || n->len > PATH_TEXT_MAX || has_space_or_control(n->text))
		doc_error(d, n, "%s must be a URL that begins with %s or %s", what, safe_scheme,
			  scheme);
	else
		*ret = doc_text(d, n);
}

static void read_secret(const struct doc *d, const struct yaml_node *n, const char **ret)
{
	if (doc_want_text(d, n, "`secret`") && doc_check_name(d, n, NAME_ENV, "secret"))
		*ret = doc_text(d, n);
}

static void read_webhook(const struct doc *d, const struct yaml_node *n, struct notify_decl *t)
{
	static const char *const keys[] = { "url", "secret" };
	const struct yaml_node *url = n, *secret = NULL;

	if (n->kind == YAML_KIND_MAP) {
		doc_check_keys(d, n, keys, ARRAY_LEN(keys));
		url = yaml_get(n, "url");
		secret = yaml_get(n, "secret");
		if (!url)
			doc_error(d, n, "`webhook` has no `url`");
	}
	if (url)
		read_url(d, url, "`url`", "http://", "https://", &t->url);
	if (secret)
		read_secret(d, secret, &t->secret);
}

static bool read_address(const struct doc *d, const struct yaml_node *n, const char *what,
			 const char **ret)
{
	const char *at;

	if (!doc_want_text(d, n, what))
		return false;
	at = strchr(n->text, '@');
	if (!at || at == n->text || !at[1] || n->len > 254 || has_space_or_control(n->text) ||
	    strpbrk(n->text, "<>,;\"")) {
		doc_error(d, n, "%s: `%.60s` is not a mail address", what, n->text);
		return false;
	}
	*ret = doc_text(d, n);
	return true;
}

static void read_email(const struct doc *d, const struct yaml_node *n, struct notify_decl *t)
{
	static const char *const keys[] = { "to", "smtp", "from", "secret" };
	const struct yaml_node *v;
	const char **to;
	size_t count;

	if (!doc_want_map(d, n, "`email`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if (!(v = yaml_get(n, "to")))
		doc_error(d, n, "`email` has no `to`");
	count = !v ? 0 : v->kind == YAML_KIND_SEQ ? v->len : 1;
	if (v && (count == 0 || count > TELL_MAX))
		doc_error(d, v, "`to` needs 1 to %d mail addresses", TELL_MAX);
	t->to = to = arena_alloc(d->l->arena, (count + 1) * sizeof(*to));
	for (size_t i = 0; i < count && i < TELL_MAX; i++)
		t->n_to += read_address(d, v->kind == YAML_KIND_SEQ ? v->items[i] : v, "`to`",
					&to[t->n_to]);
	if ((v = yaml_get(n, "smtp")))
		read_url(d, v, "`smtp`", "smtp://", "smtps://", &t->url);
	else
		doc_error(d, n, "`email` has no `smtp`: the mail server");
	if ((v = yaml_get(n, "from")))
		read_address(d, v, "`from`", &t->from);
	if ((v = yaml_get(n, "secret")))
		read_secret(d, v, &t->secret);
}

bool notify_metric_parse(const char *text, struct arena *arena, struct notify_metric *m)
{
	size_t name = strcspn(text, " \t<>=!"), op;
	const char *rest;

	m->text = arena_strdup(arena, text);
	m->metric = arena_strndup(arena, text, name);
	rest = text + name + strspn(text + name, " \t");
	op = compare_parse(rest, &m->op);
	rest += op + strspn(rest + op, " \t");
	m->last = strcmp(rest, "last") == 0;
	return name > 0 && op > 0 &&
	       (m->last || (text_parse_double(rest, &m->bound) && isfinite(m->bound)));
}

static void read_metric_rule(const struct doc *d, const struct yaml_node *n, struct notify_decl *t,
			     struct notify_metric *ret)
{
	static const char *const keys[] = { "metric" };
	const struct yaml_node *v;

	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	v = yaml_get(n, "metric");
	if (!v) {
		doc_error(d, n, "one of `when` is an event, or `metric: RULE`");
		return;
	}
	if (!doc_want_text(d, v, "`metric`"))
		return;
	if (!notify_metric_parse(v->text, d->l->arena, ret)) {
		doc_error(d, v,
			  "`metric` must be a comparison with the last run or a number, such as "
			  "\"accuracy < last\" or \"val.loss >= 0.3\"");
		return;
	}
	t->n_metrics++;
	t->on |= NOTIFY_METRIC;
}

static void read_when_to_tell(const struct doc *d, const struct yaml_node *n, bool scheduled,
			      struct notify_decl *t)
{
	static const char *const names[] = { "failure", "recovery", "success", "approval",
					     "missed" };
	static const enum notify_event events[] = { NOTIFY_FAILURE, NOTIFY_RECOVERY, NOTIFY_SUCCESS,
						    NOTIFY_APPROVAL, NOTIFY_MISSED };
	const size_t n_names = ARRAY_LEN(names) - !scheduled; /* only a schedule can miss a run */
	size_t count = n->kind == YAML_KIND_SEQ ? n->len : 1;
	struct notify_metric *metrics = arena_alloc(d->l->arena, (count + 1) * sizeof(*metrics));

	if (count == 0)
		doc_error(d, n, "`when` is empty: no notice would ever be sent");
	for (size_t i = 0; i < count; i++) {
		const struct yaml_node *one = n->kind == YAML_KIND_SEQ ? n->items[i] : n;
		const char *event = NULL;

		if (one->kind == YAML_KIND_MAP)
			read_metric_rule(d, one, t, &metrics[t->n_metrics]);
		else
			read_choice(d, one, "`when`", names, n_names, &event);
		for (unsigned k = 0; k < n_names; k++)
			if (event == names[k])
				t->on |= events[k];
	}
	t->metrics = metrics;
}

static void read_one(const struct doc *d, const struct yaml_node *n, bool scheduled,
		     struct notify_decl *t)
{
	static const char *const keys[] = { "command", "webhook", "email", "when" };
	const struct yaml_node *v, *when = NULL;
	int kinds = 0;

	t->pos = doc_pos(d, n);
	if (!doc_want_map(d, n, "a notification"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if ((v = yaml_get(n, "command")) && ++kinds) {
		t->kind = NOTIFY_COMMAND;
		read_text(d, v, "`command`", &t->command);
	}
	if ((v = yaml_get(n, "webhook")) && ++kinds) {
		t->kind = NOTIFY_WEBHOOK;
		read_webhook(d, v, t);
	}
	if ((v = yaml_get(n, "email")) && ++kinds) {
		t->kind = NOTIFY_EMAIL;
		read_email(d, v, t);
	}
	if (kinds != 1)
		doc_error(d, n, "a notification is one of `command`, `webhook` and `email`");
	if ((when = yaml_get(n, "when")))
		read_when_to_tell(d, when, scheduled, t);
	else
		t->on = NOTIFY_FAILURE | NOTIFY_RECOVERY | NOTIFY_APPROVAL |
			(scheduled ? NOTIFY_MISSED : 0);
}

void read_notify(struct loader *l, const struct yaml_node *n, bool scheduled,
		 const struct notify_decl **ret, size_t *ret_n)
{
	size_t count = n->kind == YAML_KIND_SEQ ? n->len : 1;
	struct notify_decl *v = arena_alloc(l->arena, (count + 1) * sizeof(*v));

	if (count > TELL_MAX) {
		doc_error(&l->doc, n, "at most %d notifications", TELL_MAX);
		return;
	}
	for (size_t i = 0; i < count; i++)
		read_one(&l->doc, n->kind == YAML_KIND_SEQ ? n->items[i] : n, scheduled, &v[i]);
	*ret = v;
	*ret_n = count;
}
