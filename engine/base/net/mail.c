/* engine/base/net/mail.c — makes the text of one message, and sends it with libcurl's easy
 * interface.
 *
 * mail_add_message() writes RFC 5322: lines end in CR LF, lines of the body are cut at
 * LINE_BYTES_MAX, a subject that is longer or isn't plain ASCII becomes encoded words (RFC 2047),
 * and text that could start another header is made printable. Addresses are checked before anything
 * is sent.
 *
 * mail_send() splits the URL, because libcurl gets user and password separately. It blocks the
 * caller until the server has answered, and uses its own handle: it shares only the loaded library
 * with http.c (curl_api_get()). may_go_better() decides between ERR_IO and ERR_INVALID.
 * engine/serve/notify retries.
 */
#include "base/net/mail.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "base/net/http_internal.h"
#include "base/text/text.h"

/* RFC 5322, 2.1.1: a line has at most 998 bytes. */
#define LINE_BYTES_MAX 900
/* RFC 2047, 2: an encoded word has at most 75. Ours encode every byte that isn't plain ASCII. */
#define WORD_BYTES_MAX 70

/* The message. */

bool mail_address_is_valid(const char *a)
{
	const char *at = strrchr(a, '@');

	if (!at || at == a || !at[1] || strlen(a) > 254 || *a == '-')
		return false;
	for (const char *c = a; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f ||
		    strchr("<>\"\\,;:()", *c))
			return false;
	return true;
}

/* =?UTF-8?Q?…?= words, each with whole characters. */
static void add_encoded(struct str *out, const char *s, size_t n)
{
	static const char begin[] = "=?UTF-8?Q?";
	size_t start = out->len;

	str_add(out, begin);
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t cp;

		len = MAX(text_utf8_decode(s + i, n - i, &cp), (size_t)1);
		if (out->len - start + 3 * len + 2 > WORD_BYTES_MAX) {
			str_add(out, "?=\r\n ");
			start = out->len;
			str_add(out, begin);
		}
		for (size_t k = i; k < i + len; k++) {
			unsigned char c = (unsigned char)s[k];

			if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			    (c >= 'A' && c <= 'Z'))
				str_addc(out, (char)c);
			else
				str_addf(out, "=%02X", c);
		}
	}
	str_add(out, "?=");
}

static void add_date(struct str *out, int64_t wall_ns)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t t = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;

	gmtime_r(&t, &tm);
	str_addf(out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n", days[tm.tm_wday % 7],
		 tm.tm_mday, months[tm.tm_mon % 12], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
		 tm.tm_sec);
}

/* Lines are cut after escaping, because escapes make them longer. */
static void add_body(struct str *out, const char *s)
{
	_cleanup_(str_deinit) struct str line = { 0 };

	while (*s) {
		size_t n = strcspn(s, "\n"), at = 0;

		str_reset(&line);
		text_add_printable(&line, s, n);
		do {
			size_t left = line.len - at, cut = MIN(left, (size_t)LINE_BYTES_MAX);

			while (cut < left && cut > 1 &&
			       ((unsigned char)line.s[at + cut] & 0xc0) == 0x80)
				cut--; /* don't cut a character */
			str_addn(out, line.len ? line.s + at : "", cut);
			str_add(out, "\r\n");
			at += cut;
		} while (at < line.len);
		s += n + (s[n] == '\n');
	}
}

void mail_add_message(struct str *out, const struct mail *m)
{
	const char *at = strrchr(m->from, '@');
	_cleanup_(str_deinit) struct str subject = { 0 };
	bool plain;

	add_date(out, m->wall_ns);
	str_addf(out, "From: <%s>\r\n", m->from);
	for (size_t i = 0; i < m->n_to; i++)
		str_addf(out, "%s<%s>%s\r\n", i ? " " : "To: ", m->to[i],
			 i + 1 < m->n_to ? "," : "");
	str_add(&subject, "");
	text_add_printable(&subject, m->subject, MIN(strlen(m->subject), 300u));
	plain = subject.len <= LINE_BYTES_MAX;
	for (size_t i = 0; i < subject.len && plain; i++)
		plain = (unsigned char)subject.s[i] >= ' ' && (unsigned char)subject.s[i] < 0x7f;
	str_add(out, "Subject: ");
	if (plain)
		str_addn(out, subject.s, subject.len);
	else
		add_encoded(out, subject.s, subject.len);
	str_add(out, "\r\n");
	str_addf(out,
		 "Message-ID: <%s@%s>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; "
		 "charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n"
		 "Auto-Submitted: auto-generated\r\n\r\n",
		 m->id, at ? at + 1 : "localhost");
	add_body(out, m->body);
}

/* Sending. */

struct reading {
	struct str text;
	size_t at;
};

static size_t on_read(char *buf, size_t size, size_t n, void *arg)
{
	struct reading *r = arg;
	size_t len = MIN(size * n, r->text.len - r->at);

	memcpy(buf, r->text.s + r->at, len);
	r->at += len;
	return len;
}

struct server {
	char *url;   /* without the user */
	char *user;  /* or NULL */
	char *place; /* for messages */
	bool local;
};

static void server_deinit(struct server *s)
{
	free(s->url);
	free(s->user);
	free(s->place);
}

static int take_apart(const char *url, struct server *ret, struct err *err)
{
	const char *rest = str_has_prefix(url, "smtps://")  ? url + 8
			   : str_has_prefix(url, "smtp://") ? url + 7
							    : NULL;
	const char *at = rest ? strrchr(rest, '@') : NULL, *host = at ? at + 1 : rest;
	size_t n = host ? strcspn(host, ":/") : 0;

	if (!rest || !*host || strpbrk(host, " \r\n") ||
	    (at && (at == rest || memchr(rest, ':', (size_t)(at - rest)))))
		return err_set(err, ERR_INVALID,
			       "a mail server is written smtp://[user@]host[:port] or smtps://…; "
			       "the password is a secret");
	ret->url = xasprintf("%.*s%s", (int)(rest - url), url, host);
	ret->user = at ? xstrndup(rest, (size_t)(at - rest)) : NULL;
	ret->place = xstrdup(host);
	ret->local = (n == 9 && strncasecmp(host, "localhost", 9) == 0) ||
		     str_has_prefix(host, "127.") || str_has_prefix(host, "[::1]");
	return 0;
}

static int check(const struct mail *m, struct err *err)
{
	if (!mail_address_is_valid(m->from))
		return err_set(err, ERR_INVALID, "`%s` is no mail address", m->from);
	for (size_t i = 0; i < m->n_to; i++)
		if (!mail_address_is_valid(m->to[i]))
			return err_set(err, ERR_INVALID, "`%s` is no mail address", m->to[i]);
	return m->n_to ? 0 : err_set(err, ERR_INVALID, "the message has no receiver");
}

/* Tells whether a failure is transient. So are all 4xx answers of the server (RFC 5321, 4.2.1), and
 * a connection that broke before TLS was set up. */
static bool may_go_better(CURLcode code, long answer)
{
	if (answer >= 400 && answer < 500)
		return true;
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_SSL_CONNECT_ERROR:
		return true;
	case CURLE_SEND_ERROR:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_LOGIN_DENIED:
		return answer < 500;
	default:
		return false;
	}
}

static void set_up(const struct curl_api *api, CURL *easy, const struct mail *m,
		   const struct server *s, struct reading *r, struct curl_slist *to,
		   const char *from)
{
	const char *ca_file =
		getenv("SSL_CERT_FILE"); /* as in base/net/http.c: libcurl itself ignores it */
	bool must_hide = m->password && !s->local;

	api->easy_setopt(easy, CURLOPT_URL, s->url);
	api->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
	api->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	api->easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (!ca_file || !*ca_file)
		ca_file = http_ca_file();
	if (ca_file)
		api->easy_setopt(easy, CURLOPT_CAINFO, ca_file);
	api->easy_setopt(easy, CURLOPT_USE_SSL,
			 (long)(must_hide ? CURLUSESSL_ALL : CURLUSESSL_TRY));
	api->easy_setopt(easy, CURLOPT_MAIL_FROM, from);
	api->easy_setopt(easy, CURLOPT_MAIL_RCPT, to);
	api->easy_setopt(easy, CURLOPT_UPLOAD, 1L);
	api->easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
	api->easy_setopt(easy, CURLOPT_READDATA, r);
	api->easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->text.len);
	api->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)MAX(m->timeout_ns / NS_PER_MS, 1));
	api->easy_setopt(easy, CURLOPT_PROXY, "");
	if (s->user && m->password) {
		api->easy_setopt(easy, CURLOPT_USERNAME, s->user);
		api->easy_setopt(easy, CURLOPT_PASSWORD, m->password);
	}
}

static int perform(const struct curl_api *api, CURL *easy, const struct server *s, struct err *err)
{
	CURLcode code = api->easy_perform(easy);
	long answer = 0;

	if (code == CURLE_OK)
		return 0;
	api->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer);
	err_set(err, may_go_better(code, answer) ? ERR_IO : ERR_INVALID,
		"the mail server %s took no message: %s", s->place, api->easy_strerror(code));
	if (answer && err) {
		size_t n = strlen(err->msg);

		snprintf(err->msg + n, sizeof(err->msg) - n, " (its last answer: %ld)", answer);
	}
	return -1;
}

int mail_send(const struct mail *m, struct err *err)
{
	_cleanup_(server_deinit) struct server s = { 0 };
	_cleanup_(freep) char *from = xasprintf("<%s>", m->from);
	struct reading r = { 0 };
	struct curl_slist *to = NULL;
	const struct curl_api *api;
	CURL *easy;
	int result;

	if (check(m, err) < 0 || take_apart(m->url, &s, err) < 0 || curl_api_get(&api, err) < 0)
		return -1;
	easy = api->easy_init();
	if (!easy)
		mem_die(0);
	for (size_t i = 0; i < m->n_to; i++) {
		_cleanup_(freep) char *address = xasprintf("<%s>", m->to[i]);

		to = api->slist_append(to, address);
	}
	mail_add_message(&r.text, m);
	set_up(api, easy, m, &s, &r, to, from);
	result = perform(api, easy, &s, err);
	api->easy_cleanup(easy);
	api->slist_free_all(to);
	str_deinit(&r.text);
	return result;
}
