#include <string.h>
#include "base/text/text.h"
#include "storage/bucket/s3/xml.h"
#include "unit.h"

static int note(void *arg, const char *path, const char *text, struct err *err)
{
	str_addf(arg, "%s=%s\n", path, text);
	return 0;
}

static void check(const char *xml, const char *want)
{
	struct str s = { 0 };
	struct err err = { 0 };

	assert_int_equal(xml_read("test", xml, strlen(xml), note, &s, &err), 0);
	assert_string_equal(s.s, want);
	str_deinit(&s);
}

static void test_elements(void **state)
{
	check("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<L "
	      "xmlns=\"http://example.org/x\"><Key>a&amp;b &#233;</Key><E/></L>",
	      "L/Key=a&b \xc3\xa9\nL/E=\nL=\n");
	check("<a:L xmlns:a=\"x\"><a:K>1</a:K><a:K>2<b>3</b></a:K></a:L>",
	      "L/K=1\nL/K/b=3\nL/K=\nL=\n");
	check("<L><K><![CDATA[<x>]]></K></L>", "L/K=<x>\nL=\n");
}

/* An answer to something else isn't one without elements: nothing of it is told. */
static void test_root(void **state)
{
	char good[] = "<?xml version=\"1.0\"?><x:L xmlns:x=\"y\"><x:K>1</x:K></x:L>";
	char bad[] = "<Error><Code>X</Code></Error>";
	struct str s = { 0 };
	struct err err = { 0 };

	assert_int_equal(xml_read_as("L", "test", &(struct str){ .s = good, .len = strlen(good) },
				     note, &s, &err),
			 0);
	assert_string_equal(s.s, "L/K=1\nL=\n");
	str_reset(&s);
	assert_int_equal(xml_read_as("L", "test", &(struct str){ .s = bad, .len = strlen(bad) },
				     note, &s, &err),
			 -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_non_null(strstr(err.msg, "another answer"));
	assert_int_equal(s.len, 0);
	str_deinit(&s);
}

static void refused(const char *xml, size_t n, const char *why)
{
	struct str s = { 0 };
	struct err err = { 0 };

	assert_int_equal(xml_read("test", xml, n, note, &s, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	if (!strstr(err.msg, why))
		fail_msg("%s", err.msg);
	str_deinit(&s);
}

static void test_hostile(void **state)
{
	struct str s = { 0 };

	refused("", 0, "no element");
	refused("<a><b></a>", 10, "mismatched");
	refused("{\"json\": 1}", 11, "not well-formed");
	refused("<a>\0</a>", 8, "not well-formed");
	refused("<a/><b/>", 8, "junk");
	refused("<a>\xff</a>", 8, "not well-formed");
	str_add(&s,
		"<!DOCTYPE a [<!ENTITY b \"bbbbbbbbbb\"><!ENTITY c \"&b;&b;&b;&b;\">]><a>&c;</a>");
	refused(s.s, s.len, "document type");
	str_reset(&s);
	for (int i = 0; i < 17; i++)
		str_add(&s, "<a>");
	refused(s.s, s.len, "too deeply");
	str_reset(&s);
	str_add(&s, "<a>");
	for (int i = 0; i < 70000; i++)
		str_addc(&s, 'x');
	str_add(&s, "</a>");
	refused(s.s, s.len, "too much text");
	refused("<a>&unknown;</a>", 16, "undefined entity");
	str_deinit(&s);
}

static int stop(void *arg, const char *path, const char *text, struct err *err)
{
	return strcmp(path, "a/b") == 0 ? err_set(err, ERR_TOO_LARGE, "enough") : 0;
}

static void test_a_handler_stops(void **state)
{
	struct err err = { 0 };

	assert_int_equal(xml_read("test", "<a><b/><c/></a>", 15, stop, NULL, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_string_equal(err.msg, "enough");
}

static void test_errors(void **state)
{
	struct xml_error e;
	static const char s3[] = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>region "
				 "\x1b is wrong</Message><Region>eu-west-1</Region></Error>";
	static const char clean[] =
		"<?xml "
		"version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>no\nway\xe2\x80\xae</"
		"Message><Region>eu-west-1</Region></Error>";
	static const char sts[] =
		"<ErrorResponse "
		"xmlns=\"x\"><Error><Type>Sender</Type><Code>ExpiredTokenException</"
		"Code><Message>old</Message></Error></ErrorResponse>";
	struct str s = { 0 };

	assert_false(xml_read_error(s3, sizeof(s3) - 1, &e) &&
		     strchr(e.message, 0x1b)); /* no XML at all */
	assert_true(xml_read_error(clean, sizeof(clean) - 1, &e));
	assert_string_equal(e.code, "AccessDenied");
	assert_string_equal(e.message, "no\\nway\\u202e");
	assert_string_equal(e.region, "eu-west-1");
	assert_true(xml_read_error(sts, sizeof(sts) - 1, &e));
	assert_string_equal(e.code, "ExpiredTokenException");
	assert_false(xml_read_error("<ListBucketResult/>", 19, &e));
	assert_false(xml_read_error(NULL, 0, &e));
	str_add(&s, "<Error><Code>C</Code><Message>");
	for (int i = 0; i < 1000; i++)
		str_add(&s, "\xc3\xa9");
	str_add(&s, "</Message></Error>");
	assert_true(xml_read_error(s.s, s.len, &e));
	assert_int_equal(strlen(e.message), 510); /* not through a character */
	assert_true(text_is_utf8(e.message, strlen(e.message)));
	str_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements), cmocka_unit_test(test_root),
		cmocka_unit_test(test_hostile),  cmocka_unit_test(test_a_handler_stops),
		cmocka_unit_test(test_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
