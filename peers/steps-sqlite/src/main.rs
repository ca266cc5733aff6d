//! x
use steps_sqlite::tenant::*; use steps_sqlite::run::*; use exec::teams::{*, patch::*};
fn main(){
 let n:u32=std::env::args().nth(2).unwrap().parse().unwrap(); let customers:i64=std::env::args().nth(4).unwrap().parse().unwrap();
 let mut ts:Vec<Tenant>=(0..n).map(|t|Tenant::open(t,customers).unwrap()).collect();
 let kind=std::env::args().nth(1).unwrap(); let rounds:u32=std::env::args().nth(3).unwrap().parse().unwrap();
 let points:Vec<String>=std::env::args().skip(5).collect();
 let kind=*Kind::ALL.iter().find(|k|k.name()==kind).unwrap();
 let entries=Entries::of_this_process().unwrap();
 let mut s=Scheduler::new(TeamOptions{team_size_max:n as usize,..Default::default()}).unwrap();
 let rs=requests(kind,n,0,rounds,customers);
 for _ in 0..5 {
 let t=std::time::Instant::now(); serial(&mut ts,&rs,Marks::None); let a=t.elapsed().as_nanos()/(rounds*n) as u128;
 let p=unsafe{patch(&entries,&points)}.unwrap();
 let t=std::time::Instant::now(); team(&mut s,&mut ts,&rs,Marks::None); let b=t.elapsed().as_nanos()/(rounds*n) as u128;
 p.unpatch().unwrap();
 println!("serial {a} team {b} ns");
 }
 println!("{:?}",s.control().statistics());
}
