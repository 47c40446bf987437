/* storage/bucket/s3/xml.h — the XML that S3 and STS answer with, read by libexpat under limits.
 *
 * A reader is told of each element that ends: its path from the root, by local names
 * ("ListBucketResult/Contents/Key"), and the text in it. Entities other than the five of XML,
 * document types, more than 16 levels or 64 KiB of text in an element are errors: no S3 answer has
 * them. Text may hold any character that XML allows; make it printable before it is shown.
 */
#ifndef CAIRN_STORAGE_BUCKET_S3_XML_H
#define CAIRN_STORAGE_BUCKET_S3_XML_H

#include "base/err.h"
#include "base/text/str.h"

#define XML_DEPTH_MAX 16
#define XML_TEXT_MAX  (64 * KIB)

/* `text` is NUL-terminated and lent; it has no NUL in it. Returns 0 to go on, -1 with *err. */
typedef int (*xml_element_fn)(void *arg, const char *path, const char *text, struct err *err);
/* `what` names the source in errors. ERR_CORRUPT when it isn't such XML. The root's name comes
 * last, as any element that ends. */
int xml_read(const char *what, const void *bytes, size_t n, xml_element_fn fn, void *arg,
	     struct err *err);
/* The same, where the root must be `root`: a success that holds an error, or a page of HTML, isn't
 * an empty answer. */
int xml_read_as(const char *root, const char *what, const struct str *body, xml_element_fn fn,
		void *arg, struct err *err);

/* An S3 or STS error: <Error><Code>… or <ErrorResponse><Error><Code>…. Texts are printable and
 * bounded; "" where there are none. */
struct xml_error {
	char code[64];
	char message[512];
	char region[64];    /* of AuthorizationHeaderMalformed and redirects */
	char endpoint[256]; /* of redirects */
};
/* true: the body is an error. Never fails: what isn't one leaves *ret empty. */
bool xml_read_error(const void *bytes, size_t n, struct xml_error *ret);

#endif
