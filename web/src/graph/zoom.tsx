import type { RefObject } from 'preact';
import { words } from '../base/words';
import { IconButton } from '../parts/bits';
import type { GraphCanvas } from './canvas';

export function ZoomButtons({ view }: { view: RefObject<GraphCanvas> }) {
  return (
    <span class="segmented">
      <IconButton icon="minus" label={words.run.zoomOut} onClick={() => view.current?.zoom(0.8)} />
      <IconButton icon="plus" label={words.run.zoomIn} onClick={() => view.current?.zoom(1.25)} />
      <IconButton icon="fit" label={words.run.zoomFit} onClick={() => view.current?.fit()} />
    </span>
  );
}
