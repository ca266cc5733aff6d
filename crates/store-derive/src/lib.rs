//! `#[derive(Row)]`: a struct as a row of a table of `corun-store`, whose documentation of the trait `Row` describes it.
//!
//! Order of events: the attributes are read and checked ([`attributes`]), then the implementation is written ([`derive_row`]). What it is
//! not: the check of types and definitions, which the store makes when the table is made.

mod attributes;

use attributes::{Container, Member};
use proc_macro::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, parse_macro_input};

/// Implements `corun_store::Row` for a struct with named fields.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

fn implementation(input: &DeriveInput) -> Result<proc_macro2::TokenStream, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "a row is a struct with named fields"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.span(), "a row is a struct with named fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a row has no parameters: its columns are of fixed types",
        ));
    }
    let container = Container::read(input)?;
    let members: Vec<Member> = fields.named.iter().map(Member::read).collect::<Result<_, _>>()?;
    let keys = container.keys(&members)?;

    let row = &input.ident;
    let table = &container.table;
    let columns = members.iter().map(|member| {
        let Member {
            name,
            of,
            data_type,
            default,
            ..
        } = member;
        let data_type = match data_type {
            Some(given) => quote!(#given),
            None => quote!(<#of as ::corun_store::RowField>::TYPE),
        };
        let default = default.as_ref().map(|value| quote!(.default_value(#value)));
        quote! {
            let column = ::corun_store::ColumnDef::new(#name, #data_type)#default;
            let table = table.with_column(match <#of as ::corun_store::RowField>::NULLABLE {
                true => column.nullable(),
                false => column,
            });
        }
    });
    let (field, name): (Vec<_>, Vec<_>) = members.iter().map(|member| (&member.field, &member.name)).unzip();
    Ok(quote! {
        impl ::corun_store::Row for #row {
            fn definition() -> ::corun_store::TableDef {
                let table = ::corun_store::TableDef::new(#table);
                #(#columns)*
                table #keys
            }

            fn read(row: ::corun_store::RowRef<'_>) -> ::core::result::Result<Self, ::corun_store::RowError> {
                ::core::result::Result::Ok(Self { #(#field: ::corun_store::RowField::read(row, #name)?,)* })
            }

            fn write(
                &self,
                row: &mut ::corun_store::RowBuf,
            ) -> ::core::result::Result<(), ::corun_store::RowError> {
                #(row.set(#name, ::corun_store::RowField::value(&self.#field))?;)*
                ::core::result::Result::Ok(())
            }
        }
    })
}
