// Chains as a query would find them: sorted by arrival, a chain ends where the next request does
// not start at the end of the last one. Prints the elapsed seconds.
const pl = require('nodejs-polars');
const log = process.env.LOG;
const start = process.hrtime.bigint();
const scanned = log.endsWith('.parquet') ? pl.scanParquet(log) : pl.scanCSV(log);
const before = (column) => pl.col(column).shift(1);
scanned
  .filter(pl.col('bytes').gt(0))
  .withColumns(
    pl.col('ts').mul(1000).minus(pl.col('service_ms')).alias('received'),
    pl.col('offset').plus(pl.col('bytes')).alias('end'),
  )
  .sort([pl.col('session'), pl.col('file'), pl.col('received')])
  .withColumns(
    before('session').neq(pl.col('session'))
      .or(before('file').neq(pl.col('file')))
      .or(before('end').neq(pl.col('offset')))
      .or(pl.col('received').minus(before('received')).gt(40000))
      .cast(pl.Int64).cumSum().alias('chain'),
  )
  .groupBy('chain')
  .agg(
    pl.col('session').first(), pl.col('file').first(), pl.col('offset').min().alias('start'),
    pl.col('end').max(), pl.col('received').min().alias('t_start'),
    pl.col('ts').max().alias('t_end'), pl.col('size').first().alias('open'),
    pl.col('bytes').count().alias('nreq'),
  )
  .collectSync();
console.log(Number(process.hrtime.bigint() - start) / 1e9);
const fs = require('fs');
const columns = log.replace(/\.csv$/, '.parquet');
if (!fs.existsSync(columns)) pl.readCSV(log).writeParquet(columns);
