/* engine/serve/view/type.c — the type of a file, by its name alone, and what its bytes may do.
 *
 * Three policies. A page of a report runs its scripts in a sandbox: its origin is none, so that it
 * has no cookie and can read no answer of ours; it may load what lies beside it, and connect to
 * nothing. A PDF is shown by the browser's own reader, which a sandbox would stop; the policy
 * leaves it nothing to load. Everything else is in a sandbox without scripts. What isn't in the
 * table is only to be saved. Nothing is guessed from the bytes, by us or by the browser (nosniff).
 */
#include <string.h>
#include <strings.h>
#include "serve/view/view.h"

#define COMMON "; object-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
#define POLICY_PAGE                                                                        \
	"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'none'" \
	"; sandbox allow-scripts" COMMON
#define POLICY_PDF                                                         \
	"default-src 'none'; style-src 'unsafe-inline'; object-src 'self'" \
	"; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
#define POLICY_REST "default-src 'none'; style-src 'unsafe-inline'; sandbox" COMMON

enum kind { PAGE, PDF, REST };

struct view_type view_type_of(const char *name)
{
	static const struct {
		const char *suffixes, *type;
		enum kind kind;
	} types[] = {
		{ " html htm ", "text/html; charset=utf-8", PAGE },
		{ " pdf ", "application/pdf", PDF },
		{ " txt log md rst csv tsv jsonl ndjson yaml yml toml ini cfg py sh c h cpp rs go "
		  "sql ",
		  "text/plain; charset=utf-8", REST },
		{ " json ipynb ", "application/json", REST },
		{ " css ", "text/css; charset=utf-8", REST },
		{ " js mjs ", "text/javascript; charset=utf-8", REST },
		{ " png ", "image/png", REST },
		{ " jpg jpeg ", "image/jpeg", REST },
		{ " gif ", "image/gif", REST },
		{ " webp ", "image/webp", REST },
		{ " avif ", "image/avif", REST },
		{ " bmp ", "image/bmp", REST },
		{ " ico ", "image/x-icon", REST },
		{ " svg ", "image/svg+xml", REST },
		{ " wav ", "audio/wav", REST },
		{ " mp3 ", "audio/mpeg", REST },
		{ " flac ", "audio/flac", REST },
		{ " ogg oga opus ", "audio/ogg", REST },
		{ " mp4 m4v ", "video/mp4", REST },
		{ " webm ", "video/webm", REST },
		{ " woff2 ", "font/woff2", REST },
		{ " woff ", "font/woff", REST },
		{ " ttf ", "font/ttf", REST },
	};
	static const char *const policies[] = {
		[PAGE] = POLICY_PAGE, [PDF] = POLICY_PDF, [REST] = POLICY_REST
	};
	const char *dot = strrchr(name, '.');
	char word[16];

	if (dot && strlen(dot + 1) <= 8 && !strchr(dot, ' ')) {
		snprintf(word, sizeof(word), " %s ", dot + 1);
		for (size_t i = 0; i < ARRAY_LEN(types); i++)
			if (strcasestr(types[i].suffixes, word))
				return (struct view_type){ types[i].type, policies[types[i].kind],
							   false };
	}
	return (struct view_type){ "application/octet-stream", POLICY_REST, true };
}
