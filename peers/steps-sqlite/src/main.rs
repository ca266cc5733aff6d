//! x
use steps_sqlite::tenant::*;
#[inline(never)] #[unsafe(no_mangle)] fn traced_operation(t:&mut Tenant,r:Request)->Answer{ t.run(r).unwrap() }
fn main(){
 let n=10; let customers=500;
 let mut ts:Vec<Tenant>=(0..n).map(|t|Tenant::open(t,customers).unwrap()).collect();
 let mut os:Vec<Oracle>=(0..n).map(|t|Oracle::new(t,customers)).collect();
 let kind=std::env::args().nth(1).unwrap(); let rounds:u32=std::env::args().nth(2).unwrap().parse().unwrap();
 let kind=*Kind::ALL.iter().find(|k|k.name()==kind).unwrap();
 for i in 0..20 { for t in 0..n as usize { let r=kind.request(t as u32,i,customers); assert_eq!(ts[t].run(r).unwrap(),os[t].run(r)); } }
 let l=steps_sqlite::teams::LATCHES.load(std::sync::atomic::Ordering::Relaxed);
 let s=std::time::Instant::now();
 for i in 20..20+rounds { for t in 0..n as usize { let r=kind.request(t as u32,i,customers); std::hint::black_box(traced_operation(&mut ts[t],r)); } }
 println!("{} ns {} latches", s.elapsed().as_nanos()/(rounds*n) as u128, (steps_sqlite::teams::LATCHES.load(std::sync::atomic::Ordering::Relaxed)-l) as f64/(rounds*n) as f64);
}
