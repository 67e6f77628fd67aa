/**
 * A chart of the last minutes: uPlot with the look of these pages, redrawn in place. Time runs
 * from the left edge (some minutes ago) to the right edge (now); the axis counts back from now.
 */
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { text, timeSplits, type Quantity } from './pure/format';
import { color, faded, onTheme } from './theme';

export interface Line {
  readonly label: string;
  /** Name of a custom property of the style sheet. */
  readonly color: string;
  readonly fill?: number;
  readonly width?: number;
  readonly dash?: number[];
}

export interface ChartOptions {
  /** Names the chart for tests and screen readers. */
  readonly name: string;
  readonly window_s: number;
  readonly lines: readonly Line[];
  readonly format: (value: number) => Quantity;
  /** Top of the scale without activity; the scale grows from there. */
  readonly quiet_max: number;
  /** Fixed top of the scale. */
  readonly fixed_max?: number;
  /** Powers of 1024 on the scale rather than of 1000. */
  readonly binary?: boolean;
  /** The lines are parts of a whole, stacked in the order given. */
  readonly stacked?: boolean;
}

export type Series = readonly (number | null)[];

const TEXT_FONT = '500 11px "Inter Variable", system-ui, sans-serif';
const BINARY_STEPS = Array.from({ length: 56 }, (_, power) => 2 ** power);

/** Values for tests: the newest data of every chart on the page. */
export const chartData = new Map<string, { xs: Series; lines: Series[] }>();

function cumulated(lines: readonly Series[]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  lines.forEach((line, index) => {
    sums.push(line.map((value, at) => (value === null ? null : value + (sums[index - 1]?.[at] ?? 0))));
  });
  return sums;
}

export class Chart {
  readonly element: HTMLDivElement;
  #options: ChartOptions;
  #plot: uPlot | null = null;
  #data: uPlot.AlignedData;
  #observer: ResizeObserver;
  #offTheme: () => void;

  constructor(options: ChartOptions) {
    this.#options = options;
    this.#data = [[], ...options.lines.map(() => [])];
    this.element = document.createElement('div');
    this.element.className = 'chart';
    this.element.setAttribute('role', 'img');
    this.element.setAttribute('aria-label', options.name);
    this.#observer = new ResizeObserver(() => this.#fit());
    this.#observer.observe(this.element);
    this.#offTheme = onTheme(() => this.#rebuild());
  }

  close(): void {
    this.#observer.disconnect();
    this.#offTheme();
    this.#plot?.destroy();
    this.#plot = null;
    chartData.delete(this.#options.name);
  }

  /** `xs` are seconds before now (negative, ascending), with one value of each line for each of them. */
  update(xs: number[], lines: readonly Series[]): void {
    const { name, stacked, format, lines: drawn } = this.#options;
    chartData.set(name, { xs, lines: [...lines] });
    const ys = stacked === true ? cumulated(lines).reverse() : lines.map((line) => [...line]);
    this.#data = [xs, ...ys] as uPlot.AlignedData;
    const now = drawn.map((line, index) => {
      const value = lines[index]?.at(-1);
      return `${line.label} ${value === null || value === undefined ? 'unknown' : text(format(value))}`;
    });
    this.element.setAttribute('aria-label', `${name}. Now: ${now.join(', ')}`);
    if (this.#plot === null) this.#fit();
    else this.#plot.setData(this.#data);
  }

  #fit(): void {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (width < 40 || height < 30) return;
    if (this.#plot === null) this.#build(width, height);
    else this.#plot.setSize({ width, height });
  }

  #rebuild(): void {
    if (this.#plot === null) return;
    this.#plot.destroy();
    this.#plot = null;
    this.#fit();
  }

  #series(): uPlot.Series[] {
    const { lines, stacked } = this.#options;
    // A stack is painted from the top down: each sum covers the ones below it.
    const ordered = stacked === true ? [...lines].reverse() : lines;
    return ordered.map((line) => ({
      label: line.label,
      stroke: () => color(line.color),
      width: line.width ?? (stacked === true ? 0 : 1.75),
      fill:
        line.fill === undefined
          ? undefined
          : () => (stacked === true ? color(line.color) : faded(line.color, line.fill ?? 0)),
      dash: line.dash,
      points: { show: false },
      spanGaps: false,
    })) as uPlot.Series[];
  }

  #build(width: number, height: number): void {
    const { window_s, format, quiet_max, fixed_max, binary } = this.#options;
    const grid: uPlot.Axis.Grid = { stroke: () => color('--grid'), width: 1 };
    const axis: uPlot.Axis = {
      stroke: () => color('--muted'),
      font: TEXT_FONT,
      grid,
      ticks: { show: false },
    };
    this.#plot = new uPlot(
      {
        width,
        height,
        padding: [8, 14, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        select: { show: false, left: 0, top: 0, width: 0, height: 0 },
        scales: {
          x: { time: false, range: () => [-window_s, 0] },
          y: {
            range: (_plot, _min, max) => [0, fixed_max ?? Math.max((max ?? 0) * 1.08, quiet_max)],
          },
        },
        series: [{}, ...this.#series()],
        axes: [
          {
            ...axis,
            size: 24,
            gap: 4,
            splits: (plot) => timeSplits(window_s, plot.bbox.width / devicePixelRatio),
            values: (_plot, splits) => splits.map((at) => ago(at)),
            grid: { show: false },
          },
          {
            ...axis,
            size: 66,
            gap: 6,
            space: 34,
            ...(binary === true ? { incrs: BINARY_STEPS } : {}),
            values: (_plot, splits) => splits.map((value) => text(format(value))),
          },
        ],
      },
      this.#data,
      this.element,
    );
  }
}

function ago(seconds: number): string {
  if (seconds === 0) return 'now';
  const whole = Math.round(-seconds);
  return whole % 60 === 0 ? `−${whole / 60} min` : `−${whole} s`;
}
