/* engine/serve/page/report.h — runs as one HTML file, for mail and archives.
 *
 * The file is the page of the web interface with the answers of the API in it. It asks nobody for
 * anything, and its policy lets nothing run but the script that this program was built with. */
#ifndef CAIRN_SERVE_PAGE_REPORT_H
#define CAIRN_SERVE_PAGE_REPORT_H

#include "base/err.h"
#include "base/mem.h"
#include "base/text/str.h"

#define REPORT_RUNS_MAX    50
#define REPORT_TASKS_MAX   20000        /* rows of tasks of one run */
#define REPORT_DETAILS_MAX 500          /* tasks with all that is known of them, and their log */
#define REPORT_LOG_MAX     (256 * 1024) /* of one log: its end */
#define REPORT_LOGS_MAX    (16 * 1024 * 1024)
#define REPORT_TABLES_MAX  50   /* confusion matrices of a comparison */
#define REPORT_LOOKS_MAX   2000 /* outputs that are searched for one */

/* How much of what there is isn't in the file. */
struct report_cut {
	size_t tasks, details;
};

/* The page of one run, or the comparison of several. `dir`: in the project. ERR_NOT_FOUND: this
 * program has no web interface; or as the API says. */
int report_make(const char *dir, const char *const *runs, size_t n, struct str *out,
		struct report_cut *ret_cut, struct err *err);

#endif
