/* engine/cli/render/page.c — the frame and the style of an HTML page. */
#include "cli/render/page.h"
#include <string.h>
#include "base/text/text.h"

static const char style[] =
	":root{color-scheme:light "
	"dark;--back:#f5f7fa;--box:#fff;--line:#dfe4ea;--text:#1f2933;--dim:#616e7c;--good:#0a7f5a;"
	"--near:#0b6b9c;--bad:#b2182b;--warn:#8a6100}@media(prefers-color-scheme:dark){:root{--"
	"back:#14181d;--box:#1d232a;--line:#323b45;--text:#e4e7eb;--dim:#9aa5b1;--good:#4fd1a1;--"
	"near:#67b7e8;--bad:#ff8a8a;"
	"--warn:#e9b949}}"
	"body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 "
	"system-ui,-apple-system,'Segoe "
	"UI',Helvetica,Arial,sans-serif}main{max-width:1080px;margin:0 auto;padding:32px 20px "
	"64px}h1{font-size:26px;margin:0 0 2px}h2{font-size:18px;margin:36px 0 "
	"12px}.sub{color:var(--dim);margin:0 0 "
	"24px;overflow-wrap:anywhere}.tiles{display:flex;flex-wrap:wrap;gap:12px}.tile,.box{"
	"background:var(--box);border:1px solid var(--line);border-radius:10px}.tile{padding:12px "
	"18px;min-width:110px}.tile "
	"b{display:block;font-size:26px;font-weight:600;font-variant-numeric:tabular-nums}.tile "
	"span{color:var(--dim);font-size:13px}.box{padding:6px "
	"14px;overflow-x:auto}.first{border-left:4px solid var(--bad);padding:12px 16px}.first "
	"p{margin:4px "
	"0}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th{text-"
	"align:left;font-weight:500;color:var(--dim);font-size:13px}td,th{padding:6px "
	"10px;border-bottom:1px solid "
	"var(--line);vertical-align:top;overflow-wrap:anywhere}tr:last-child "
	"td{border-bottom:0}.num{text-align:right;white-space:nowrap;color:var(--dim)}td.verdict{"
	"white-space:nowrap}.good{color:var(--good)}.near{color:var(--near)}.bad{color:var(--bad)}."
	"warn{color:var(--warn)}.dim{color:var(--dim)}code{font-size:13px}td "
	"div+div{margin-top:3px}";

void page_add_text(struct str *out, const char *s)
{
	s = s ? s : "–";
	text_add_xml(out, s, strlen(s));
}

void page_begin(struct str *out, const char *title)
{
	str_add(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta "
		     "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
	page_add_text(out, title);
	str_addf(out, "</title>\n<style>%s</style>\n<main>\n", style);
}

void page_end(struct str *out)
{
	str_add(out, "</main>\n</html>\n");
}
