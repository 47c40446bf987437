/* XML of S3 and STS: paths are bounded and well-formed, texts bounded; an error's texts are
 * printable and whole characters; nothing that is refused comes without a word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text/text.h"
#include "storage/bucket/s3/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_s3_xml: %s\n", what);
	abort();
}

struct seen {
	size_t elements;
	bool root;
};

static int on_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct seen *s = arg;
	size_t depth = 1;

	must(!s->root, "an element after the root");
	must(*path && *path != '/' && path[strlen(path) - 1] != '/', "an odd path");
	for (const char *p = path; *p; p++)
		depth += *p == '/';
	must(depth <= XML_DEPTH_MAX, "too deep");
	must(strlen(text) <= XML_TEXT_MAX, "too much text");
	must(text_is_utf8(text, strlen(text)), "text that is no UTF-8");
	s->root = depth == 1;
	s->elements++;
	return s->elements == 1000 ? err_set(err, ERR_TOO_LARGE, "enough") : 0;
}

static void check_text(const char *s, size_t max)
{
	struct str printable = { 0 };

	must(strlen(s) < max && text_is_utf8(s, strlen(s)),
	     "an error's text that is too long, or cut through a character");
	text_add_printable(&printable, s, strlen(s));
	must(str_eq(printable.s ? printable.s : "", s), "an error's text that isn't printable");
	str_deinit(&printable);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen seen = { 0 };
	struct err err = { 0 };
	struct xml_error e;
	int r = xml_read("fuzz", data, size, on_element, &seen, &err);

	must((r < 0) == (err.code != ERR_NONE),
	     "an error without a word, or a word without an error");
	must(r < 0 || seen.root, "taken without a root");
	must(xml_read_error(data, size, &e) == (e.code[0] != '\0'), "an error without a code");
	check_text(e.code, sizeof(e.code));
	check_text(e.message, sizeof(e.message));
	check_text(e.region, sizeof(e.region));
	check_text(e.endpoint, sizeof(e.endpoint));
	return 0;
}
