const per = (one: string, several: (count: number) => string) => (count: number) => (count === 1 ? one : several(count));

export const chart = {
  asTable: "表で表示",
  time: "時刻",
  nothing: "この期間には何もありません。",
  label: "run の推移",
  range: "期間",
  ranges: { "1h": "1 時間", "6h": "6 時間", "24h": "24 時間", "7d": "7 日", "30d": "30 日" },
  runsPer: {
    minutes: per("1 分ごとの run 数", (count) => `${count} 分ごとの run 数`),
    hours: per("1 時間ごとの run 数", (count) => `${count} 時間ごとの run 数`),
    days: per("1 日ごとの run 数", (count) => `${count} 日ごとの run 数`),
  },
  submitted: "投入",
  durations: "待ち時間と実行時間",
  queueTime: (percentile: string) => `待ち ${percentile}`,
  runTime: (percentile: string) => `実行 ${percentile}`,
  success: (share: string) => `終了した run の ${share} が完了`,
  cut: (kept: string) => `終了した run の保持期間は ${kept} です。それより前に終了した run は削除済みのため表示されません。保持の始まり:`,
};
