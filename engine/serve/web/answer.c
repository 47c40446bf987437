#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include "serve/web/web.h"

static const char *web_reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *reason;
	} reasons[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 500, "Internal Server Error" },
		{ 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Error";
}

void web_answer_json(struct web_exchange *x, unsigned status, json_t *j)
{
	if (x->status == 0) {
		x->status = status;
		json_add_canonical(&x->out, j);
		str_addc(&x->out, '\n');
	}
	json_decref(j);
}

void web_problem(struct web_exchange *x, unsigned status, const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str detail = { 0 };
	va_list ap;

	if (x->status)
		return;
	va_start(ap, fmt);
	str_addv(&detail, fmt, ap);
	va_end(ap);
	x->type = "application/problem+json";
	web_answer_json(x, status,
			json_pack("{s:s, s:s, s:i, s:o}", "type", "about:blank", "title",
				  web_reason(status), "status", (int)status, "detail",
				  json_name(detail.s ? detail.s : "", detail.len)));
}

static unsigned status_of(enum err_code code)
{
	switch (code) {
	case ERR_USAGE:
	case ERR_INVALID:
	case ERR_TOO_LARGE:
		return 400;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_EXISTS:
		return 409;
	case ERR_BUSY:
	case ERR_NO_SPACE:
	case ERR_READ_ONLY:
	case ERR_CANCELLED:
	case ERR_IO:
		return 503;
	default:
		return 500;
	}
}

void web_problem_err(struct web_exchange *x, const struct err *err)
{
	web_problem(x, status_of(err->code), "%s", err->msg);
}

const char *web_param(const struct web_exchange *x, const char *name)
{
	for (size_t i = 0; i < x->n_params; i++)
		if (strcmp(x->params[i].name, name) == 0)
			return x->params[i].value;
	return NULL;
}

void web_add_header(struct web_exchange *x, const char *name, const char *value)
{
	assert(x->n_headers < WEB_HEADERS_MAX);
	x->headers[x->n_headers++] = (struct web_param){ name, value };
}
