// What the address of a run names is asked for while the code of its page is still on the way: then
// the page is drawn once, with everything.

import * as api from '../../api';
import { ahead } from '../../api/request';
import { chosen } from '../../base/project';
import { matchRoute, place } from '../../base/route';
import { logPlace, readTail } from '../../log/place';

const RUN = '/runs/{run}';
const TASK = `${RUN}/tasks/{task}`;
/** A page begins by then, whatever is missing: with skeletons. */
const WAIT_MS = 250;

/** Fetches the code that a task's address needs, all at once. */
async function code(path: string): Promise<void> {
  if (!matchRoute(TASK, path)) return;
  const parts = [import('./run'), import('./task'), import('../../log/view')] as const;
  const [run, task] = await Promise.all(parts);
  await Promise.all([run.TaskPanel.load(), task.LogView.load()]);
}

function data(path: string, query: URLSearchParams): Promise<void> {
  const of =
    matchRoute(TASK, path) ?? (path.split('/').length === 3 ? matchRoute(RUN, path) : null);
  const project = chosen.value;
  const { run, task } = of ?? {};
  // Without one, several projects are tried. `last` is another run by then, and has another name.
  if (!run || !project || run === 'last') return Promise.resolve();
  return ahead(() => {
    void api.run(run, { project });
    void api.graph(run, { project });
    void api.timeline(run, { project });
    if (!task) return;
    void api.taskDetail(run, { project, task });
    if (query.get('tab') === 'log') void readTail(logPlace(run, task, project, query));
  });
}

/** Resolves when what the address needs is here, or nearly at once. `page` is its code; after
 * `project` it is known which project is meant. */
export async function getAhead(page: Promise<unknown>, project: Promise<unknown>): Promise<void> {
  const { path, query } = place.value;
  const loaded = Promise.allSettled([page, code(path)]); // told where it is needed
  await project;
  await Promise.race([
    Promise.all([loaded, data(path, query)]),
    new Promise((r) => setTimeout(r, WAIT_MS)),
  ]);
}
