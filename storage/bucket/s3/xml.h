/* storage/bucket/s3/xml.h — reads the XML answers of S3 and STS, with libexpat and limits.
 *
 * The callback gets each element at its end: its path of local names from the root
 * ("ListBucketResult/Contents/Key"), and its text. Entities other than XML's five, document types,
 * more than 16 levels, or more than 64 KiB of text in an element are errors: no S3 answer has them.
 * Text may hold any character that XML allows; make it printable before you show it.
 */
#ifndef CAIRN_STORAGE_BUCKET_S3_XML_H
#define CAIRN_STORAGE_BUCKET_S3_XML_H

#include "base/err.h"
#include "base/text/str.h"

#define XML_DEPTH_MAX 16
#define XML_TEXT_MAX  (64 * KIB)

/* `text` is borrowed, and NUL-terminated; it contains no NUL. Return 0 to continue, -1 with
 * *err. */
typedef int (*xml_element_fn)(void *arg, const char *path, const char *text, struct err *err);
/* `what` names the source in errors. ERR_CORRUPT for other input. The root ends last, so it comes
 * last. */
int xml_read(const char *what, const void *bytes, size_t n, xml_element_fn fn, void *arg,
	     struct err *err);
/* The same, but the root must be `root`, so that an error in a success, or an HTML page, isn't
 * taken as an empty answer. */
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
/* True: the body is an error. Never fails: other bodies leave *ret empty. */
bool xml_read_error(const void *bytes, size_t n, struct xml_error *ret);

#endif
