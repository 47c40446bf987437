/* engine/serve/page/page.c — which file of the bundle answers a path, and with which headers.
 *
 * Besides the interface, the bundle has the documents: plain pages below /docs/.
 *
 * A name under /assets/ changes with its bytes, so browsers may keep it for ever. The page itself
 * has one name: browsers ask again each time, with its ETag. Files are kept compressed, and sent
 * so; a client that can't decompress gets them plain.
 *
 * POLICY lets the page load from this server only: no inline script, no plugin, no other host. */
#include "serve/page/page.h"
#include <assert.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include "base/text/text.h"
#include "serve/page/bundle.h"

/* Images may be data: and blob: URLs, which the page makes of what it has loaded. Charts and
 * virtual lists set styles of elements by script, which is no inline style. */
#define POLICY                                                                                 \
	"default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

static const char *type_of(const char *path)
{
	static const struct {
		const char *suffix, *type;
	} types[] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".js", "text/javascript; charset=utf-8" },
		{ ".css", "text/css; charset=utf-8" },
		{ ".json", "application/json" },
		{ ".webmanifest", "application/manifest+json" },
		{ ".svg", "image/svg+xml" },
		{ ".png", "image/png" },
		{ ".ico", "image/x-icon" },
		{ ".woff2", "font/woff2" },
		{ ".txt", "text/plain; charset=utf-8" },
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_has_suffix(path, types[i].suffix))
			return types[i].type;
	return "application/octet-stream";
}

/* Routes of the page itself: the first part of their paths. */
static bool is_route(const char *path)
{
	static const char *const routes[] = {
		"",      "runs",  "compare", "lineage", "artifacts", "schedules",
		"start", "store", "cluster", "audit",   "sign-in",
	};
	size_t n = strcspn(path + 1, "/");

	for (size_t i = 0; i < ARRAY_LEN(routes); i++)
		if (strlen(routes[i]) == n && strncmp(path + 1, routes[i], n) == 0)
			return true;
	return false;
}

/* Paths that scripts and machines ask for: a problem in JSON is the better answer there. */
static bool is_machines(const char *path)
{
	static const char *const prefixes[] = { "/api/", "/view/", "/assets/" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_has_prefix(path, prefixes[i]))
			return true;
	return false;
}

static const struct bundle_file *find_file(const char *path)
{
	for (const struct bundle_file *f = bundle_files; f->path; f++)
		if (str_eq(f->path, path))
			return f;
	return NULL;
}

static bool takes_gzip(struct web_exchange *x)
{
	const char *accept = web_header(x, "Accept-Encoding");

	return accept && strstr(accept, "gzip") && !strstr(accept, "gzip;q=0");
}

static void inflate_into(struct str *out, const struct bundle_file *f)
{
	z_stream z = { .next_in = (unsigned char *)(uintptr_t)f->gz,
		       .avail_in = (unsigned)(f->gz_end - f->gz) };
	char *plain = xmalloc(f->size + 1);

	z.next_out = (unsigned char *)plain;
	z.avail_out = (unsigned)f->size + 1;
	/* Our own bytes: only a defect of the build makes this fail. */
	if (inflateInit2(&z, 15 + 16) != Z_OK || inflate(&z, Z_FINISH) != Z_STREAM_END ||
	    z.total_out != f->size)
		abort();
	inflateEnd(&z);
	str_addn(out, plain, f->size);
	free(plain);
}

static void answer_file(struct web_exchange *x, const struct bundle_file *f, unsigned status)
{
	bool keeps = str_has_prefix(f->path, "/assets/");

	x->status = status;
	x->type = type_of(f->path);
	x->head.policy = POLICY;
	x->head.cache = keeps ? "public, max-age=31536000, immutable" : "no-cache";
	web_add_header(x, "Vary", "Accept-Encoding");
	if (takes_gzip(x)) {
		x->bytes = f->gz;
		x->n_bytes = (size_t)(f->gz_end - f->gz);
		x->head.etag = arena_printf(x->arena, "\"%.32s-gz\"", f->etag + 1);
		web_add_header(x, "Content-Encoding", "gzip");
	} else {
		inflate_into(&x->out, f);
		x->head.etag = f->etag;
	}
}

/* For a program that was built without the interface. */
static void answer_without(struct web_exchange *x, unsigned status)
{
	x->status = status;
	x->type = "text/html; charset=utf-8";
	x->head.policy = POLICY;
	x->head.cache = "no-cache";
	str_addf(&x->out,
		 "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Cairn</title>\n"
		 "<h1>This program has no web interface</h1>\n<p>%s\n"
		 "<p>The API is there all the same: <a href=\"/api/v1/openapi.json\">"
		 "/api/v1/openapi.json</a> describes it.\n</html>\n",
		 bundle_why);
}

/* What reports are made of: a page with inline scripts, which isn't served. */
#define TEMPLATE "/report/template.html"

int page_template(struct str *out, struct err *err)
{
	const struct bundle_file *f = find_file(TEMPLATE);

	if (!f)
		return err_set(err, ERR_NOT_FOUND, "this program has no web interface. %s",
			       bundle_why);
	inflate_into(out, f);
	return 0;
}

bool page_answer(struct web_exchange *x)
{
	bool docs = str_eq(x->path, "/docs") || str_eq(x->path, "/docs/");
	const struct bundle_file *f =
		str_eq(x->path, TEMPLATE) ? NULL : find_file(docs ? "/docs/index.html" : x->path);
	const struct bundle_file *page = find_file("/index.html");
	const char *accept = web_header(x, "Accept");
	unsigned status = is_route(x->path) ? 200 : 404;

	if (!str_eq(x->method, "GET"))
		return false;
	if (f) {
		answer_file(x, f, 200);
		return true;
	}
	/* A person who mistypes an address gets the page, which says so. */
	if (status == 404 && (is_machines(x->path) || !accept || !strstr(accept, "text/html")))
		return false;
	if (page)
		answer_file(x, page, status);
	else
		answer_without(x, status);
	return true;
}
