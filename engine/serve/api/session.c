/* Signing in and out, and the audit log. */
#include "record/facts.h"
#include "serve/access/access.h"
#include "serve/internal.h"

static void answer_session(struct api *a)
{
	const struct caller *c = a->x->caller;
	bool known = c->role != ROLE_NONE;

	web_answer_json(
		a->x, 200,
		json_pack("{s:o, s:o, s:o, s:o, s:b, s:b}", "user", facts_text(c->user), "role",
			  facts_text(role_name(c->role)), "expires", facts_time(c->expires_ns),
			  "way", facts_text(way_name(c->way)), "signed_in",
			  known && c->way != WAY_LOCAL, "sign_in",
			  c->role < ROLE_OPERATOR && access_wants_token(a->d->http.access)));
}

void api_session(struct api *a)
{
	answer_session(a);
}

void api_sign_in(struct api *a)
{
	struct err err = { 0 };
	const char *token;

	if (json_get_str(a->body, "token", &token, &err) < 0)
		web_problem(a->x, 400, "body: %s", err.msg);
	else if (access_sign_in(a->d->http.access, a->x, token))
		answer_session(a);
}

void api_sign_out(struct api *a)
{
	access_sign_out(a->d->http.access, a->x);
	a->x->status = 204;
}

void api_audit(struct api *a)
{
	uint64_t limit = API_LIMIT_DEFAULT, before = 0, next;
	struct err err = { 0 };
	json_t *list;

	if (!api_uint(a, "limit", 1, API_LIMIT_MAX, &limit) ||
	    !api_uint(a, "cursor", 1, API_CURSOR_MAX, &before))
		return;
	if (audit_read(access_audit(a->d->http.access), before, limit, &list, &next, &err) < 0)
		web_problem_err(a->x, &err);
	else
		api_answer_page(a, "entries", list, api_cursor(a, next));
}
