/* storage/bucket/s3/xml.c — reads S3's XML with libexpat, under limits.
 *
 * `path` holds the names of all open elements; `starts` says where each name begins, so that the
 * end of an element removes it. `text` is emptied at each start and end, so an element with
 * children has the text after its last child.
 *
 * The first refusal stops the parser and is kept in `why` or `err`; later callbacks do nothing. No
 * state outlives a call.
 */
#include "storage/bucket/s3/xml.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"

struct reader {
	XML_Parser parser;
	const char *root; /* required root; NULL: any */
	xml_element_fn fn;
	void *arg;
	struct str path, text;
	size_t starts[XML_DEPTH_MAX]; /* of each element's name in `path` */
	int depth;
	const char *why; /* why it is refused; static */
	struct err err;  /* or fn's error */
};

static void refuse(struct reader *r, const char *why)
{
	if (!r->why && !r->err.code)
		r->why = why;
	XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct reader *r = arg;
	const char *colon = strrchr(name, ':'), *local = colon && colon[1] ? colon + 1 : name;

	if (r->depth == XML_DEPTH_MAX || strlen(local) > 128)
		return refuse(r, "it is nested too deeply");
	if (r->root && !r->depth && !str_eq(local, r->root))
		return refuse(r, "it is another answer than the one that was asked for");
	r->starts[r->depth++] = r->path.len;
	if (r->path.len)
		str_addc(&r->path, '/');
	str_add(&r->path, local);
	str_reset(&r->text);
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
	struct reader *r = arg;
	size_t start;

	if (r->why || r->err.code || !r->depth)
		return;
	start = r->starts[--r->depth];
	if (r->fn(r->arg, r->path.s, r->text.s ? r->text.s : "", &r->err) < 0)
		return refuse(r, NULL);
	r->path.len = start;
	r->path.s[start] = '\0';
	str_reset(&r->text);
}

static void XMLCALL on_text(void *arg, const XML_Char *s, int n)
{
	struct reader *r = arg;

	if (r->why || r->err.code)
		return;
	if (r->text.len + (size_t)n > XML_TEXT_MAX)
		return refuse(r, "an element holds too much text");
	str_addn(&r->text, s, (size_t)n);
}

static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
			       const XML_Char *public_id, int has_subset)
{
	refuse(arg, "it has a document type");
}

static int read_root(struct reader *r, const char *what, const void *bytes, size_t n,
		     struct err *err)
{
	int result = 0;

	if (n > 64 * MIB)
		return err_set(err, ERR_TOO_LARGE, "%s: the answer is larger than 64 MiB", what);
	r->parser = XML_ParserCreate("UTF-8");
	if (!r->parser)
		return err_set(err, ERR_IO, "%s: no XML parser", what);
	XML_SetUserData(r->parser, r);
	XML_SetElementHandler(r->parser, on_start, on_end);
	XML_SetCharacterDataHandler(r->parser, on_text);
	XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
	if (XML_Parse(r->parser, bytes ? bytes : "", (int)n, 1) != XML_STATUS_OK || r->why ||
	    r->err.code)
		result = r->err.code
				 ? err_pass(err, &r->err)
				 : err_set(err, ERR_CORRUPT,
					   "%s: the answer isn't the XML of an object store: line "
					   "%lu: %s",
					   what, (unsigned long)XML_GetCurrentLineNumber(r->parser),
					   r->why ? r->why
						  : XML_ErrorString(XML_GetErrorCode(r->parser)));
	XML_ParserFree(r->parser);
	str_deinit(&r->path);
	str_deinit(&r->text);
	return result;
}

int xml_read_as(const char *root, const char *what, const struct str *body, xml_element_fn fn,
		void *arg, struct err *err)
{
	struct reader r = { .root = root, .fn = fn, .arg = arg };

	return read_root(&r, what, body->s, body->len, err);
}

int xml_read(const char *what, const void *bytes, size_t n, xml_element_fn fn, void *arg,
	     struct err *err)
{
	struct reader r = { .fn = fn, .arg = arg };

	return read_root(&r, what, bytes, n, err);
}

/* Errors. */

static void copy_printable(char *out, size_t size, const char *text)
{
	struct str s = { 0 };
	size_t n;

	text_add_printable(&s, text, strnlen(text, size));
	n = MIN(s.len, size - 1);
	while (n && n < s.len && ((unsigned char)s.s[n] & 0xc0) == 0x80) /* don't cut a character */
		n--;
	memcpy(out, s.s ? s.s : "", n);
	out[n] = '\0';
	str_deinit(&s);
}

static int error_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct xml_error *e = arg;

	if (!str_has_prefix(path, "Error")) /* don't read a long answer that is no error */
		return err_set(err, ERR_CORRUPT, "no error");
	if (str_has_prefix(path, "ErrorResponse/"))
		path += strlen("ErrorResponse/");
	if (str_eq(path, "Error/Code"))
		copy_printable(e->code, sizeof(e->code), text);
	else if (str_eq(path, "Error/Message"))
		copy_printable(e->message, sizeof(e->message), text);
	else if (str_eq(path, "Error/Region"))
		copy_printable(e->region, sizeof(e->region), text);
	else if (str_eq(path, "Error/Endpoint"))
		copy_printable(e->endpoint, sizeof(e->endpoint), text);
	return 0;
}

bool xml_read_error(const void *bytes, size_t n, struct xml_error *ret)
{
	struct err ignored = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (n && n <= MIB)
		xml_read("error", bytes, n, error_element, ret, &ignored);
	return ret->code[0] != '\0';
}
