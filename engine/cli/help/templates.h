/* engine/cli/help/templates.h — the folder pipelines/ at the time the program was built: one folder
 * for each template of `cairn init --template`, and schema.json. */
#ifndef CAIRN_CLI_HELP_TEMPLATES_H
#define CAIRN_CLI_HELP_TEMPLATES_H

#include "base/embedded.h"

extern const struct embedded_file init_files[];
extern const char init_files_folders[]; /* "hello|sweep|…" */

#endif
